package fault

import (
	"errors"
	"maps"
	"net/http"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// getAt answers a get with an object as it was: only lists can name an exact state.
func getAt(w http.ResponseWriter, r *http.Request, what Request, at uint64) {
	accept := strings.ReplaceAll(r.Header.Get("Accept"), "as=PartialObjectMetadata;", "as=PartialObjectMetadataList;")
	only := exactly(at)
	only["fieldSelector"] = "metadata.name=" + what.Name
	answer := ask(r, accept, only)
	list, err := readList(answer.Body.Bytes())
	switch {
	case answer.Code != http.StatusOK || err != nil: // also a Table, which is the same for one object
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes()) // the client may be gone
	case len(list.objects) != 1:
		Refuse(w, wire.NotFound(schema.GroupResource{Group: what.Group, Resource: what.Resource}, what.Name))
	default:
		w.Header().Set("Content-Type", answer.Header().Get("Content-Type"))
		_, _ = w.Write(list.objects[0]) // the client may be gone
	}
}

// isPlainWatch reports whether a watch is of objects at a path that a list has, too.
func isPlainWatch(r *http.Request) bool {
	return !strings.Contains(r.URL.Path, "/watch/") && !strings.Contains(r.Header.Get("Accept"), "as=Table")
}

// watch serves a watch whose server has only what happened up to a resource version. What
// follows is dropped or held until the rule is removed; then the watch is cut, and its client
// resumes from what it has seen.
func (s *Stale) watch(w http.ResponseWriter, r *http.Request, next http.Handler, at uint64) {
	q := r.URL.Query()
	streaming := isTrue(q["sendInitialEvents"])
	request, initial := r, streaming || rvOf(r) == 0
	if initial {
		request = withQuery(r, map[string]string{
			"resourceVersion": strconv.FormatUint(at, 10), "resourceVersionMatch": "", "sendInitialEvents": "",
		})
	}
	var held []Frame
	late := false
	Frames(w, request, next, func(f Frame) []Frame {
		if f.Type == Opened && initial {
			return append([]Frame{f}, initialAt(r, f, at, streaming && isTrue(q["allowWatchBookmarks"]))...)
		}
		rv, err := strconv.ParseUint(f.About().ResourceVersion, 10, 64)
		if err != nil || rv <= at || f.Type == "ERROR" || f.Type == Opened {
			return []Frame{f}
		}
		if !late {
			late = true
			f.EndAtRemoval()
		}
		if s.Behind == 0 {
			return nil
		}
		held = append(held, f)
		n := 0
		for n < len(held) && heldRV(held[n])+s.Behind <= rv {
			n++
		}
		out := held[:n:n]
		held = held[n:]
		return out
	})
}

func heldRV(f Frame) uint64 {
	rv, _ := strconv.ParseUint(f.About().ResourceVersion, 10, 64) // it was read before
	return rv
}

// initialAt returns the initial events of a watch as of a resource version.
func initialAt(r *http.Request, opened Frame, at uint64, bookmark bool) []Frame {
	accept := "application/json"
	if opened.Form == Protobuf {
		accept = "application/vnd.kubernetes.protobuf"
	}
	answer := ask(r, accept, exactly(at))
	list, err := readList(answer.Body.Bytes())
	if err != nil || answer.Code != http.StatusOK || list.protobuf != (opened.Form == Protobuf) {
		end := opened.Status(&kube.ExpiredError{
			Requested: kube.ResourceVersion(at), Oldest: kube.ResourceVersion(at) + 1, Kind: kube.ExpiredWatch,
		})
		end.End = Clean
		injectionOf(r.Context()).rule.failed(errors.New("the older state cannot be listed any more"))
		return []Frame{end}
	}
	var out []Frame
	frame := func(eventType string, body []byte) {
		f := opened
		f.Type, f.Body = eventType, body
		out = append(out, f)
	}
	for _, object := range list.objects {
		frame("ADDED", list.added(object))
	}
	if bookmark {
		frame("BOOKMARK", list.end())
	}
	return out
}
