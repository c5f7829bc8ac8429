package listwatchtest

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const typeProtobuf = "application/vnd.kubernetes.protobuf"

// Request is a LIST or WATCH request.
type Request struct {
	Watch          bool
	Initial        bool   // sendInitialEvents: the watch is a streaming list
	RV, Match      string // resourceVersion, resourceVersionMatch
	Limit          int
	Continue       string
	Bookmarks      bool   // allowWatchBookmarks
	Seconds        int    // timeoutSeconds of a watch
	Namespace      string // "": all
	Labels, Fields string // selectors, which the server does not apply
	Path           string // of the URL; "" without HTTP
	Protobuf       bool   // the client accepts protobuf
	Metadata       bool   // the client asks for PartialObjectMetadata
}

// String returns the kind of request and the resource version. The kind is LIST, WATCH,
// STREAM for a streaming list, or COMPARE for a list with limit 1.
func (r Request) String() string {
	kind := "LIST"
	switch {
	case r.Initial:
		kind = "STREAM"
	case r.Watch:
		kind = "WATCH"
	case r.Limit == 1:
		kind = "COMPARE"
	}
	s := kind + " rv=" + r.RV
	if r.Continue != "" {
		s += " continued"
	}
	return s
}

// InEndless reports whether the request continues a list with Fault.Endless.
func (r Request) InEndless() bool { return strings.Contains(r.Continue, "@") }

// RequestOf returns the LIST request with these options.
func RequestOf(o metav1.ListOptions) Request {
	r := Request{
		RV: o.ResourceVersion, Match: string(o.ResourceVersionMatch), Limit: int(o.Limit), Continue: o.Continue,
		Bookmarks: o.AllowWatchBookmarks, Labels: o.LabelSelector, Fields: o.FieldSelector,
	}
	if o.TimeoutSeconds != nil {
		r.Seconds = int(*o.TimeoutSeconds)
	}
	r.Initial = o.SendInitialEvents != nil && *o.SendInitialEvents
	return r
}

func requestOver(req *http.Request) Request {
	q, accept := req.URL.Query(), req.Header.Get("Accept")
	limit, _ := strconv.Atoi(q.Get("limit"))
	seconds, _ := strconv.Atoi(q.Get("timeoutSeconds"))
	r := Request{
		Watch: q.Get("watch") == "true", Initial: q.Get("sendInitialEvents") == "true",
		RV: q.Get("resourceVersion"), Match: q.Get("resourceVersionMatch"), Limit: limit, Continue: q.Get("continue"),
		Bookmarks: q.Get("allowWatchBookmarks") == "true", Seconds: seconds,
		Labels: q.Get("labelSelector"), Fields: q.Get("fieldSelector"), Path: req.URL.Path,
		Protobuf: strings.HasPrefix(accept, typeProtobuf), Metadata: strings.Contains(accept, "as=PartialObjectMetadata"),
	}
	if _, rest, found := strings.Cut(req.URL.Path, "/namespaces/"); found {
		if namespace, _, below := strings.Cut(rest, "/"); below {
			r.Namespace, _ = url.PathUnescape(namespace)
		}
	}
	return r
}
