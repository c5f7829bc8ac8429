package definitions

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Where the packages of upstream's tests are, and where they are compiled.
const (
	theirs = "k8s.io/apiextensions-apiserver/test/integration"
	ours   = "github.com/gapless-io/gapless/conformance/definitions"
)

// overlay writes, into dir, upstream's sources below from with the imports of its fixtures
// replaced by ours, and the file for go's -overlay that adds them to the module in root. It
// returns the file.
func overlay(dir, root, from string) (string, error) {
	replace := map[string]string{}
	add := func(source, pkg string) error {
		text, err := os.ReadFile(source)
		if err != nil {
			return err
		}
		changed := strings.NewReplacer(
			`"`+theirs+`/fixtures"`, `"`+ours+`/fixtures"`,
			`"`+theirs+`/storage"`, `"`+ours+`/storage"`,
			`"`+theirs+`/conversion"`, `"`+ours+`/integration/conversion"`,
		).Replace(string(text))
		if strings.Contains(changed, `"`+theirs) {
			return fmt.Errorf("%s imports a package of upstream's tests that is not there", source)
		}
		at := filepath.Join(dir, strings.ReplaceAll(pkg, "/", "-")+"-"+filepath.Base(source))
		replace[filepath.Join(root, pkg, filepath.Base(source))] = at
		return os.WriteFile(at, []byte(changed), 0o600)
	}
	for _, set := range []struct{ pattern, pkg string }{
		{"*.go", "integration"},
		{"conversion/*.go", "integration/conversion"},
		{"fixtures/etcd.go", "fixtures"},
		{"fixtures/resources.go", "fixtures"},
	} {
		found, err := filepath.Glob(filepath.Join(from, set.pattern))
		if err != nil {
			return "", err
		}
		if len(found) == 0 {
			return "", fmt.Errorf("no file %s in %s", set.pattern, from)
		}
		for _, source := range found {
			if err := add(source, set.pkg); err != nil {
				return "", err
			}
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, text, 0o600)
}
