package builtin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gapless-io/gapless/internal/kinds"
)

// Target is an object, a part of one (status), or a collection into which one is created.
type Target = kinds.Target

// FixedUID stands for the UID of every object, which some kinds repeat in labels.
const FixedUID = "11111111-2222-4333-8444-555555555555"

// fixedTime stands for the time of a write.
const fixedTime = "2001-02-03T04:05:06Z"

// Verdict is what became of a write: the object is accepted and has this form, or is
// refused with this Status.
type Verdict struct {
	// Object is what would be stored, without what differs from write to write: the UID
	// (elsewhere FixedUID), the time of the write (elsewhere fixedTime), versions, and the
	// random part of a name.
	Object map[string]any
	Status *metav1.Status
	// Warnings are those for the client, also of a write that is refused.
	Warnings []string
	Err      error // the test failed, not the write

	// For updates of the object: its UID and resourceVersion, and the time of the write,
	// "" if it is not in the object. Upstream's internal form.
	uid, version, now string
	internal          runtime.Object
	// raw is the object as it was decoded.
	raw []byte
}

// refused is the verdict of a write that is answered by a Status.
func refused(s metav1.Status) Verdict { return Verdict{Status: &s} }

// recovered makes of a panic the verdict of a client, which gets 500. The reason says
// whose panic it was, so that two do not count as agreement.
func recovered(v *Verdict, reason metav1.StatusReason) {
	if cause := recover(); cause != nil {
		*v = refused(metav1.Status{Code: http.StatusInternalServerError, Reason: reason, Message: fmt.Sprint(cause)})
	}
}

// failed is the verdict of a test that could not be done.
func failed(format string, args ...any) Verdict { return Verdict{Err: fmt.Errorf(format, args...)} }

// recorder collects the warnings of a write, each once.
type recorder struct{ texts []string }

// AddWarning implements warning.Recorder.
func (r *recorder) AddWarning(_, text string) {
	if !slices.Contains(r.texts, text) {
		r.texts = append(r.texts, text)
	}
}

// accepted is the verdict of an object as it is stored, in JSON.
func accepted(raw []byte, uid string) Verdict {
	v := Verdict{uid: uid}
	text := raw
	if uid != "" {
		text = bytes.ReplaceAll(raw, []byte(uid), []byte(FixedUID))
	}
	if err := json.Unmarshal(text, &v.Object); err != nil {
		return failed("read an object: %w", err)
	}
	metadata, _ := v.Object["metadata"].(map[string]any)
	v.version, _ = metadata["resourceVersion"].(string)
	for _, name := range []string{"uid", "creationTimestamp", "resourceVersion", "managedFields"} {
		delete(metadata, name)
	}
	name, _ := metadata["name"].(string)
	prefix, _ := metadata["generateName"].(string)
	if prefix != "" && strings.HasPrefix(name, prefix) {
		metadata["name"] = prefix + "*"
	} else if uuid.Validate(name) == nil {
		metadata["name"] = "*"
	}
	v.fixTimes(v.Object)
	return v
}

// current puts the UID, the resourceVersion and the time of a stored object into a body
// that has those that stand for them.
func current(was Verdict, body []byte) []byte {
	for fixed, actual := range map[string]string{FixedUID: was.uid, StoredVersion: was.version, fixedTime: was.now} {
		if actual != "" {
			body = bytes.ReplaceAll(body, []byte(fixed), []byte(actual))
		}
	}
	return body
}

// fixTimes replaces the times of about now in a tree, in place.
func (v *Verdict) fixTimes(at any) any {
	switch at := at.(type) {
	case map[string]any:
		for name, value := range at {
			at[name] = v.fixTimes(value)
		}
	case []any:
		for i, value := range at {
			at[i] = v.fixTimes(value)
		}
	case string:
		if len(at) < len(fixedTime) || at[len("2006")] != '-' {
			return at
		}
		if when, err := time.Parse(time.RFC3339Nano, at); err == nil && time.Since(when).Abs() < time.Hour {
			v.now = at
			return fixedTime
		}
	}
	return at
}
