package pass

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/relay/kept"
)

const (
	// keptDocuments and keptBytes bound what is remembered. A cluster with 200 groups has about 500
	// documents of together 20 MiB, without those of clients that want other encodings.
	keptDocuments = 2048
	keptBytes     = 64 << 20
)

// Documents passes on requests for the documents of discovery and OpenAPI, and remembers the last good
// answers: up to 2048, of together 64 MiB, and of one document the one for each form in which clients
// ask for it. While upstream cannot be reached it serves them, to callers who are known, with the
// headers Age (seconds since upstream has sent or confirmed it) and Warning: 110. It is safe for
// concurrent use.
type Documents struct {
	pass  *Handler
	known func(*http.Request) (user.Info, error)
	file  kept.File

	// mu guards the rest.
	mu      sync.Mutex
	kept    map[documentKey]*document
	bytes   int
	changed bool // since it was written to file
}

// documentKey is what an answer depends on.
type documentKey struct{ path, query, accept, encoding string }

// document is an answer of upstream. All but the times is immutable.
type document struct {
	header http.Header
	body   []byte
	sent   time.Time // or confirmed
	used   time.Time
}

// NewDocuments returns Documents over a handler. known returns an error for who is not known; it may
// change the request.
func NewDocuments(pass *Handler, known func(*http.Request) (user.Info, error)) *Documents {
	return &Documents{pass: pass, known: known, kept: map[documentKey]*document{}}
}

// IsDocument reports whether a request is for a document of discovery, OpenAPI or the version.
func IsDocument(r *http.Request) bool {
	if r.Method != http.MethodGet || r.Header.Get("Upgrade") != "" {
		return false
	}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if slices.Contains(parts, "") {
		return false
	}
	switch parts[0] {
	case "version":
		return len(parts) == 1
	case "api":
		return len(parts) <= 2
	case "apis":
		return len(parts) <= 3
	case "openapi":
		return len(parts) >= 2 && (parts[1] == "v2" && len(parts) == 2 || parts[1] == "v3")
	}
	return false
}

// ServeHTTP passes a request on, as Handler does.
func (d *Documents) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !IsDocument(r) {
		d.pass.ServeHTTP(w, r)
		return
	}
	k := documentKey{
		r.URL.EscapedPath(), r.URL.RawQuery, strings.Join(r.Header["Accept"], ","),
		strings.Join(r.Header["Accept-Encoding"], ","),
	}
	former := d.find(k)
	way := &detour{
		answer: func(resp *http.Response) {
			switch {
			case resp.StatusCode == http.StatusOK && isComplete(resp):
				resp.Body = &recording{ReadCloser: resp.Body, complete: func(body []byte) { d.keep(k, resp.Header, body) }}
			case resp.StatusCode == http.StatusNotModified && former != nil &&
				resp.Header.Get("Etag") == former.header.Get("Etag"):
				d.confirm(k)
			}
		},
		instead: func(w http.ResponseWriter) bool {
			if former == nil {
				return false
			}
			if _, err := d.known(r); err != nil {
				return false
			}
			former.serve(w, r)
			return true
		},
	}
	if former == nil { // a client that has the document already would get 304, and nothing to remember
		way.request = func(h http.Header) {
			h.Del("If-None-Match")
			h.Del("If-Modified-Since")
		}
	}
	d.pass.pass(w, r, way)
}

// isComplete reports whether the end of an answer differs from that of a broken connection.
func isComplete(resp *http.Response) bool {
	return resp.ProtoMajor >= 2 || resp.ContentLength >= 0 || len(resp.TransferEncoding) > 0
}

// serve answers with a remembered document.
func (doc *document) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	for name, values := range doc.header {
		h[name] = slices.Clone(values)
	}
	h.Set("Age", strconv.Itoa(int(time.Since(doc.sent).Seconds())))
	h.Set("Warning", `110 - "Response is Stale"`) // RFC 7234; kubectl prints only those with 299
	if tag := h.Get("Etag"); tag != "" && r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Length", strconv.Itoa(len(doc.body)))
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(doc.body) // the client may be gone
}

// find returns a copy of a remembered document; nil is none.
func (d *Documents) find(k documentKey) *document {
	d.mu.Lock()
	defer d.mu.Unlock()
	doc := d.kept[k]
	if doc == nil {
		return nil
	}
	doc.used = time.Now()
	out := *doc
	return &out
}

// confirm notes that a document is still the current one.
func (d *Documents) confirm(k documentKey) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if doc := d.kept[k]; doc != nil {
		doc.sent = time.Now()
	}
}

// keep remembers a document, in the place of those that were not used for the longest time if there are
// too many.
func (d *Documents) keep(k documentKey, header http.Header, body []byte) {
	now := time.Now()
	doc := &document{header: http.Header{}, body: body, sent: now, used: now}
	for _, name := range []string{
		"Content-Type", "Content-Encoding", "Etag", "Last-Modified", "Vary", "Cache-Control", "Expires",
	} {
		if values, has := header[name]; has {
			doc.header[name] = slices.Clone(values)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	former := d.kept[k]
	d.changed = d.changed || former == nil || !bytes.Equal(former.body, body)
	d.keepLocked(k, doc)
}

func (d *Documents) keepLocked(k documentKey, doc *document) {
	d.dropLocked(k)
	d.kept[k] = doc
	d.bytes += len(doc.body)
	for len(d.kept) > keptDocuments || d.bytes > keptBytes {
		oldest := k
		for other, doc := range d.kept {
			if doc.used.Before(d.kept[oldest].used) {
				oldest = other
			}
		}
		d.dropLocked(oldest)
	}
}

func (d *Documents) dropLocked(k documentKey) {
	if doc := d.kept[k]; doc != nil {
		d.bytes -= len(doc.body)
		delete(d.kept, k)
	}
}

// recording is the body of an answer that is remembered when all of it was read.
type recording struct {
	io.ReadCloser

	read     bytes.Buffer
	over     bool // more than can be remembered, or remembered
	complete func(body []byte)
}

// Read implements io.Reader.
func (b *recording) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	const most = keptBytes / 4
	switch {
	case b.over:
	case b.read.Len()+n > most:
		b.over, b.read = true, bytes.Buffer{}
	default:
		b.read.Write(p[:n])
		if err == io.EOF {
			b.over = true
			b.complete(bytes.Clone(b.read.Bytes()))
		}
	}
	return n, err
}
