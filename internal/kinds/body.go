package kinds

import (
	"bytes"
	"encoding/hex"
	"encoding/json"

	"github.com/gapless-io/gapless/internal/wire"
)

// Bounds of an object, whether it is a body, a patched object, or one with its defaults.
// docs/limits.md says how much memory a request needs for it.
const (
	// MaxObjectBytes is a third more than a body may have (limit.MaxBodyBytes).
	MaxObjectBytes = 4 << 20
	// MaxParts is how many objects and lists an object may contain. An empty one is two
	// bytes of JSON, but 2.5 KiB as a container of a pod with its defaults.
	MaxParts = 100_000
	// maxValues is how many values these may contain: a list of numbers has one in two
	// bytes, and each invalid one becomes an error of half a KiB.
	maxValues = 500_000
	// MaxDepth is how deep an object may be nested. Upstream's decoders accept 10 000 levels
	// (sigs.k8s.io/json), but the work on objects grows with the square of their depth. The
	// deepest in use are schemas in definitions, with less than a hundred.
	MaxDepth = 1000
)

// TooDeep reports whether JSON is nested more than MaxDepth levels deep. It is false for
// a body that is not JSON: the decoder refuses that.
func TooDeep(body []byte) bool {
	// Counting a byte is much faster than a scan, and enough for most bodies.
	if bytes.Count(body, []byte("{"))+bytes.Count(body, []byte("[")) <= MaxDepth {
		return false
	}
	depth, quoted, escaped := 0, false, false
	for _, c := range body {
		switch {
		case escaped:
			escaped = false
		case quoted && c == '\\':
			escaped = true
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > MaxDepth {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}

// CheckSize refuses JSON that is larger than an object may be, with 413. The JSON may be
// invalid.
func CheckSize(body []byte) error {
	if len(body) > MaxObjectBytes {
		return wire.TooLarge("the object has %d bytes, the limit is %d", len(body), MaxObjectBytes)
	}
	// Counting a byte is much faster than a scan, and enough for most bodies.
	count := func(b string) int { return bytes.Count(body, []byte(b)) }
	if count("{")+count("[") <= MaxParts && count(",") <= maxValues {
		return nil
	}
	switch parts, commas := contents(body); {
	case parts > MaxParts:
		return wire.TooLarge("the object has %d objects and lists inside, the limit is %d", parts, MaxParts)
	case commas > maxValues:
		return wire.TooLarge("the object has more than %d values inside", maxValues)
	}
	return nil
}

// contents counts the objects and lists of JSON, and the commas in them, which are
// outside of its strings.
func contents(body []byte) (parts, commas int) {
	quoted := false
	for i := 0; i < len(body); i++ {
		switch body[i] {
		case '"':
			quoted = !quoted
		case '\\':
			i++ // JSON has it in strings only
		case '{', '[':
			if !quoted {
				parts++
			}
		case ',':
			if !quoted {
				commas++
			}
		}
	}
	return parts, commas
}

// Excerpt returns the beginning of a body that cannot be decoded, in hex when it does not
// begin like JSON (upstream's summarizeData).
func Excerpt(body []byte) string {
	const shown = 30
	if len(body) == 0 {
		return "<empty>"
	}
	more := ""
	if len(body) > shown {
		body, more = body[:shown], " ..."
	}
	if body[0] == '{' {
		return string(body) + more
	}
	return hex.EncodeToString(body) + more
}

// Head reads only apiVersion and kind of a JSON body; the error has upstream's text for
// a body that is not an object.
func Head(body []byte) (apiVersion, kind string, err error) {
	var head struct {
		APIVersion string `json:"apiVersion,omitempty"`
		Kind       string `json:"kind,omitempty"`
	}
	err = json.Unmarshal(body, &head)
	return head.APIVersion, head.Kind, err
}
