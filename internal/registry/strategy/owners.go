package strategy

import (
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Stage says when a write was looked at: upstream's warnings differ.
type Stage int

// Sent is a body as the client has sent it. Admitted is an object after the plugins, which also
// shows what a patch has made.
const (
	Sent Stage = iota
	Admitted
)

// UniqueOwners removes the owner references that an object has a second time, and returns a warning
// about them (apiserver handlers dedupOwnerReferencesAndAddWarning). Two references with the same
// UID that differ in something else both stay.
func UniqueOwners(u *unstructured.Unstructured, at Stage) []string {
	meta, _ := u.Object["metadata"].(map[string]any)
	refs, _ := meta["ownerReferences"].([]any)
	if len(refs) < 2 {
		return nil
	}
	seen := make(map[string]bool, len(refs))
	kept := make([]any, 0, len(refs))
	var duplicates []string
	for _, ref := range refs {
		text, err := json.Marshal(ref)
		if err != nil {
			return nil // it was read from JSON
		}
		if !seen[string(text)] {
			seen[string(text)] = true
			kept = append(kept, ref)
			continue
		}
		of, _ := ref.(map[string]any)
		uid, _ := of["uid"].(string)
		duplicates = append(duplicates, uid)
	}
	if len(duplicates) == 0 {
		return nil
	}
	meta["ownerReferences"] = kept
	when := ""
	if at == Admitted {
		when = " after mutating admission happens"
	}
	return []string{
		fmt.Sprintf(
			".metadata.ownerReferences contains duplicate entries%s; API server dedups owner references in 1.20+, and may "+
				"reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: %s", when,
			strings.Join(duplicates, ", ")),
	}
}
