package past

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
)

// Masker hides the values of Secrets: what is left is their length, and a hash by which equal values can be seen to be
// equal. Its key is random, so that values that can be guessed cannot be found by the hash.
type Masker struct{ key []byte }

// NewMasker returns one with a key of its own.
func NewMasker() *Masker {
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // it never fails
	return &Masker{key}
}

// lastApplied is where kubectl apply keeps the whole object. Other tools do so under other names: longText is of how many
// bytes an annotation of a Secret may be a copy of it.
const (
	lastApplied = "kubectl.kubernetes.io/last-applied-configuration"
	longText    = 256
)

// Mask returns a Secret without its values, and any other object, and nil, as it is; nil masks nothing. The original
// stays as it is.
func (m *Masker) Mask(tree Tree) Tree {
	if m == nil || tree == nil || tree["kind"] != "Secret" || tree["apiVersion"] != "v1" {
		return tree
	}
	out := without(tree)
	out["data"] = m.members(out["data"], true)
	out["stringData"] = m.members(out["stringData"], false)
	for _, name := range []string{"data", "stringData"} {
		if tree[name] == nil {
			delete(out, name)
		}
	}
	meta, _ := out["metadata"].(Tree)
	annotations, _ := meta["annotations"].(Tree)
	hidden := without(annotations)
	for name, value := range annotations {
		if text, _ := value.(string); name == lastApplied || len(text) > longText {
			hidden[name] = m.value(value, false)
		}
	}
	if len(hidden) > 0 {
		meta = without(meta)
		meta["annotations"] = hidden
		out["metadata"] = meta
	}
	return out
}

func (m *Masker) members(values any, encoded bool) any {
	object, is := values.(Tree)
	if !is {
		return m.value(values, false)
	}
	out := make(Tree, len(object))
	for name, value := range object {
		out[name] = m.value(value, encoded)
	}
	return out
}

// value is what is shown instead of a value.
func (m *Masker) value(value any, encoded bool) any {
	text := fmt.Sprint(value)
	if raw, err := base64.StdEncoding.DecodeString(text); encoded && err == nil {
		text = string(raw)
	}
	mac := hmac.New(sha256.New, m.key)
	mac.Write([]byte(text))
	const shown = 4 // bytes
	return fmt.Sprintf("(%d bytes, hash %x)", len(text), mac.Sum(nil)[:shown])
}
