package apiserver

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/warning"
)

// warnings adds Warning headers to an answer, each once. Clients refuse an answer whose
// headers are too long, and a body may have a hundred thousand unknown fields: when they have
// more than 4096 characters together, each is cut to 256, and those are left out that come
// after 4096 characters all the same
// (apiserver pkg/endpoints/filters/warning.go).
type warnings struct {
	w http.ResponseWriter

	// mu is for admission plugins, which may add warnings at the same time.
	mu    sync.Mutex
	added map[string]bool
	texts []string // those of added, in order, while none is cut
	total int      // characters in headers
	cut   bool
}

var _ warning.Recorder = (*warnings)(nil)

const (
	maxWarningsRunes = 4096
	maxCutRunes      = 256
)

// AddWarning implements warning.Recorder.
func (a *warnings) AddWarning(_, text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if text == "" || a.added[text] || a.cut && a.total >= maxWarningsRunes {
		return
	}
	if a.added == nil {
		a.added = map[string]bool{}
	}
	a.added[text] = true
	if a.cut {
		a.write(text)
		return
	}
	a.texts = append(a.texts, text)
	if a.total+utf8.RuneCountInString(text) <= maxWarningsRunes {
		a.write(text)
		return
	}
	a.w.Header().Del("Warning")
	a.cut, a.total = true, 0
	for _, earlier := range a.texts {
		a.write(earlier)
	}
	a.texts = nil
}

// write adds the header of a warning. mu is held.
func (a *warnings) write(text string) {
	if runes := []rune(text); a.cut && len(runes) > maxCutRunes {
		text = string(runes[:maxCutRunes])
	}
	a.total += utf8.RuneCountInString(text)
	addWarning(a.w, text)
}

// hearing returns a request whose authenticator may warn: of a space too many before a bearer
// token, which is ignored then.
func hearing(w http.ResponseWriter, r *http.Request) *http.Request {
	if !strings.Contains(r.Header.Get("Authorization"), "  ") {
		return r
	}
	return r.WithContext(warning.WithWarningRecorder(r.Context(), &warnings{w: w}))
}

// addWarnings adds the warnings of a write to its answer.
func addWarnings(ctx context.Context, texts []string) {
	for _, text := range texts {
		warning.AddWarning(ctx, "", text)
	}
}

// addWarning adds a Warning header (RFC 7234, code 299), as kubectl prints them. Control
// characters become spaces; upstream leaves out a warning with one (docs/differences.md).
func addWarning(w http.ResponseWriter, text string) {
	const miscellaneous = 299
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	header, err := utilnet.NewWarningHeader(miscellaneous, "", text)
	if err == nil { // it is valid now
		w.Header().Add("Warning", header)
	}
}
