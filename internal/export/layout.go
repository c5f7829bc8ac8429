package export

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gapless-io/gapless/client"
)

// The directories of a tree of manifests.
const (
	clusterDir    = "cluster"
	namespacesDir = "namespaces"
	extension     = ".yaml"
)

// longestName is the length of an escaped name from which on it is shortened, in bytes: a
// file name may have 255.
const longestName = 200

// path returns the file of an object below the directory of an export:
// cluster/RESOURCE.GROUP/NAME.yaml or namespaces/NAMESPACE/RESOURCE.GROUP/NAME.yaml.
func path(r client.Resource, namespace, name string) string {
	dir := clusterDir
	if namespace != "" {
		dir = filepath.Join(namespacesDir, fileName(namespace))
	}
	return filepath.Join(dir, fileName(r.GroupResource().String()), fileName(name)+extension)
}

// fileName returns a name under which a file can be created on every system, also one
// that ignores case; different names get different ones. A name of DNS stays as it is; in
// others every byte but lower case letters, digits, "-", "_" and "." becomes %XX, and so does a "." at the
// beginning. What is too long ends with "~" and a hash.
func fileName(name string) string {
	var b strings.Builder
	for i := range len(name) {
		c := name[i]
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.' && i > 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	escaped := b.String()
	if stem, _, _ := strings.Cut(escaped, "."); reserved(stem) {
		escaped = fmt.Sprintf("%%%02X%s", escaped[0], escaped[1:])
	}
	if last := len(escaped) - 1; last >= 0 && escaped[last] == '.' { // a directory on Windows cannot end with it
		escaped = escaped[:last] + "%2E"
	}
	if len(escaped) > longestName {
		hash := sha256.Sum256([]byte(name))
		escaped = escaped[:longestName-33] + "~" + hex.EncodeToString(hash[:16])
	}
	return escaped
}

// reserved reports whether a name is that of a device on Windows.
func reserved(stem string) bool {
	if slices.Contains([]string{"con", "prn", "aux", "nul"}, stem) {
		return true
	}
	return len(stem) == 4 && (strings.HasPrefix(stem, "com") || strings.HasPrefix(stem, "lpt")) && stem[3] >= '0' &&
		stem[3] <= '9'
}
