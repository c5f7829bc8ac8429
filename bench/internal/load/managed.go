package load

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gapless-io/gapless/bench/internal/wire"
)

// Apply applies the object on the server, with the content of the next write. It does so
// by force, as controllers do.
func (w *Writer) Apply() error {
	w.Object.Version = "" // an apply is for whatever version there is
	w.body = w.Object.append(w.body[:0], Stamp{Key: w.Key, Seq: w.Seq})
	return w.do(w.application())
}

// Reapply applies the object again as it is.
func (w *Writer) Reapply() error { return w.request(w.application()) }

func (w *Writer) application() wire.Request {
	return wire.Request{
		Method: http.MethodPatch, Path: w.path() + "?force=true" + w.manager("&"), Type: "application/apply-patch+yaml",
	}
}

// Modify updates the object as a controller does: it sends what the server returned last,
// with its managed fields, and with a new stamp.
func (w *Writer) Modify() error {
	w.body = append(w.body[:0], w.answer...)
	at := bytes.LastIndex(w.body, []byte(stampName))
	if at < 0 || len(w.body)-at < len(stampName)+stampBytes {
		return fmt.Errorf("modify %s: no stamp in what the server returned last: %.500q", w.path(), w.body)
	}
	copy(w.body[at+len(stampName):], Stamp{Key: w.Key, Seq: w.Seq, Sent: time.Now().UnixNano()}.String())
	return w.do(wire.Request{Method: http.MethodPut, Path: w.path() + w.manager("?")})
}

// Annotate gives the object an annotation.
func (w *Writer) Annotate() error { return w.annotate("") }

// AnnotateUnmanaged does the same and removes all managed fields. The server records no
// more until the object is applied.
func (w *Writer) AnnotateUnmanaged() error { return w.annotate(`,"managedFields":[{}]`) }

func (w *Writer) annotate(more string) error {
	w.body = fmt.Appendf(w.body[:0], `{"metadata":{"annotations":{"bench.example/source":"api"}%s}}`, more)
	return w.do(wire.Request{Method: http.MethodPatch, Path: w.path() + w.manager("?"), Type: "application/merge-patch+json"})
}

// Report writes the status of a pod as its kubelet does.
func (w *Writer) Report() error {
	w.body = appendStatus(w.body[:0], w.Key)
	path := w.path() + "/status?fieldManager=kubelet"
	return w.do(wire.Request{Method: http.MethodPatch, Path: path, Type: "application/strategic-merge-patch+json"})
}

// appendStatus renders a patch of the status of a pod that runs.
func appendStatus(b []byte, key int) []byte {
	host, ip := "10.0.0."+strconv.Itoa(key%250), fmt.Sprintf("10.1.%d.%d", key/250%250, key%250)
	b = fmt.Appendf(b,
		`{"status":{"phase":"Running","qosClass":"Burstable","hostIP":%q,"hostIPs":[{"ip":%q}],"podIP":%q,"podIPs":[{"ip":%q}],`,
		host, host, ip, ip)
	b = append(b, `"startTime":"2026-01-31T08:30:00Z","conditions":[`...)
	for _, condition := range []string{"PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"} {
		b = fmt.Appendf(b, `{"type":%q,"status":"True","lastProbeTime":null,"lastTransitionTime":"2026-01-31T08:30:0%dZ"},`,
			condition, key%10)
	}
	b = append(b[:len(b)-1], `],"containerStatuses":[`...)
	for _, container := range []string{"server", "proxy"} {
		b = fmt.Appendf(b, `{"name":%q,"image":"registry.example/team/%s","imageID":"","containerID":"containerd://%s",`+
			`"ready":true,"started":true,"restartCount":0,"state":{"running":{"startedAt":"2026-01-31T08:30:0%dZ"}}},`, container,
			container, payload(key, 0)[:64], key%10)
	}
	return append(b[:len(b)-1], `]}}`...)
}

// UID returns that of the object.
func (w *Writer) UID() (string, error) {
	var got managed
	if err := json.Unmarshal(w.answer, &got); err != nil {
		return "", fmt.Errorf("read the UID of %s: %w", w.path(), err)
	}
	return got.Metadata.UID, nil
}

// managed is what is read of the metadata of an object.
type managed struct {
	Metadata struct {
		UID             string
		ResourceVersion string
		ManagedFields   []struct{ Manager, Operation, Subresource string }
	}
}

// managers names the entries of the managed fields, each as in "Apply user" or
// "Update kubelet status", in ascending order and with a comma between them.
func (m managed) managers() string {
	all := make([]string, 0, len(m.Metadata.ManagedFields))
	for _, entry := range m.Metadata.ManagedFields {
		all = append(all, strings.TrimSpace(entry.Operation+" "+entry.Manager+" "+entry.Subresource))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// errStored says that the server has not stored what was sent.
var errStored = errors.New("the server's object is not the one that was written")

// Check reads the object. It must hold everything that the last body has outside of its
// metadata, have the resourceVersion of the last answer, and have these managers.
func (w *Writer) Check(managers string) error {
	var raw refilled
	if _, err := w.Conn.Do(wire.Request{Path: w.path()}, &raw); err != nil {
		return fmt.Errorf("check %s: %w", w.path(), err)
	}
	var meta managed
	var want, got map[string]any
	if err := errors.Join(json.Unmarshal(raw, &meta), json.Unmarshal(raw, &got), json.Unmarshal(w.body, &want)); err != nil {
		return fmt.Errorf("check %s: %w", w.path(), err)
	}
	delete(want, "metadata")
	if lacking := lacks("object", want, got); lacking != "" {
		return fmt.Errorf("%w: %s has another value at %s: %.2000s", errStored, w.path(), lacking, raw)
	}
	if meta.Metadata.ResourceVersion != w.Object.Version || meta.managers() != managers {
		return fmt.Errorf("%w: %s has resourceVersion %s and managers %q instead of %s and %q",
			errStored, w.path(), meta.Metadata.ResourceVersion, meta.managers(), w.Object.Version, managers)
	}
	return nil
}

// lacks returns the path of the first value of want that got does not have, empty if it
// has all. Members that only got has may be there: they are defaults. path is that of both.
func lacks(path string, want, got any) string {
	switch want := want.(type) {
	case map[string]any:
		members, ok := got.(map[string]any)
		if !ok {
			return path
		}
		for name, value := range want {
			if lacking := lacks(path+"."+name, value, members[name]); lacking != "" {
				return lacking
			}
		}
		return ""
	case []any:
		items, ok := got.([]any)
		if !ok || len(items) != len(want) {
			return path
		}
		for i := range want {
			if lacking := lacks(fmt.Sprintf("%s[%d]", path, i), want[i], items[i]); lacking != "" {
				return lacking
			}
		}
		return ""
	}
	if !reflect.DeepEqual(want, got) {
		return path
	}
	return ""
}

// Managers lists a collection in pages and returns how many objects have which managers.
func Managers(conn wire.Conn, collection string) (map[string]int, error) {
	counts, token := map[string]int{}, ""
	for {
		var raw refilled
		if _, err := conn.Do(wire.Request{Path: Query(collection, "limit", "500", "continue", token)}, &raw); err != nil {
			return nil, fmt.Errorf("count managers: %w", err)
		}
		var page struct {
			Metadata struct{ Continue string }
			Items    []managed
		}
		if err := json.Unmarshal(raw, &page); err != nil {
			return nil, fmt.Errorf("count managers: %w", err)
		}
		for _, item := range page.Items {
			counts[item.managers()]++
		}
		if token = page.Metadata.Continue; token == "" {
			return counts, nil
		}
	}
}
