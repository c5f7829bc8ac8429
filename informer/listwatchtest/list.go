package listwatchtest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// page is the answer to a LIST.
type page struct {
	Fault
	epoch, rv int
	items     [][]byte
	next      string // the continue token
}

// moment is a resource version of an epoch.
type moment struct{ epoch, rv int }

func (s *Server) momentLocked() moment { return moment{len(s.epochs) - 1, s.nowLocked().rv()} }

// list answers a LIST. Its state is that after the fault's delay, or before it with Late.
func (s *Server) list(ctx context.Context, r Request, f Fault) (page, error) {
	s.mu.Lock()
	asked := s.momentLocked()
	s.mu.Unlock()
	f.Endless, _, _ = strings.Cut(cmp.Or(r.Continue, f.Endless), "@") // its tokens contain the kind
	if r.Continue != "" && f.Endless == r.Continue {
		f.Endless = ""
	}
	if err := f.begin(ctx); err != nil {
		return page{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.momentLocked()
	if f.Late && asked.epoch == m.epoch {
		m = asked
	}
	start, err := s.rangeLocked(r, f, &m)
	if err != nil {
		return page{}, err
	}
	p := page{Fault: f, epoch: m.epoch, rv: m.rv}
	if p.Endless != "" && (r.Limit > 1 || r.Continue != "") {
		s.endlessLocked(&p, r)
		return p, nil
	}
	s.itemsLocked(&p, r, start)
	return p, nil
}

// rangeLocked sets m to the state that a LIST returns, and returns the index of the first
// item.
func (s *Server) rangeLocked(r Request, f Fault, m *moment) (start int, err error) {
	asked, _ := strconv.Atoi(r.RV)
	switch {
	case f.Endless != "":
	case r.Continue != "":
		of := 0
		if _, err := fmt.Sscanf(r.Continue, "%d-%d-%d", &of, &m.rv, &start); err != nil {
			return 0, Refusal(400, "BadRequest", 0)
		}
		if f.ExpireTokens || of != len(s.epochs)-1 || m.rv < s.floor {
			return 0, expired("The provided continue parameter is too old")
		}
		m.epoch = of
	case r.Match == "Exact" && asked < s.floor:
		return 0, expired("The resourceVersion for the provided list is too old.")
	case asked > m.rv:
		return 0, TooLarge()
	case r.Match == "Exact":
		m.rv = asked
	case r.RV != "": // a consistent read is never behind
		m.rv = max(m.rv-f.Behind, s.epochs[m.epoch].first)
	}
	return start, nil
}

// itemsLocked fills a page, beginning with the item of index start.
func (s *Server) itemsLocked(p *page, r Request, start int) {
	size := r.Limit
	if r.RV == "0" && r.Continue == "" {
		size = 0 // such a list is not paged
	}
	if p.Page > 0 && (r.Limit > 0 || p.ExpireTokens) {
		size = p.Page
	}
	n := 0
	s.epochs[p.epoch].at(p.rv).Scan(func(_ string, v *Version) bool {
		if r.Namespace != "" && v.Key.Namespace != r.Namespace {
			return true
		}
		if n++; n <= start {
			return true
		}
		if size > 0 && n > start+size {
			p.next = fmt.Sprintf("%d-%d-%d", p.epoch, p.rv, start+size)
			return false
		}
		p.items = append(p.items, v.Raw)
		return true
	})
	if p.Bad != "" {
		at := min(p.BadAfter, len(p.items))
		p.items = append(p.items[:at:at], append([][]byte{[]byte(p.Bad)}, p.items[at:]...)...)
	}
}

// endlessLocked fills a page of a list without an end.
func (s *Server) endlessLocked(p *page, r Request) {
	p.next = fmt.Sprint("barren@", len(s.requests))
	if p.Endless != "circle" {
		return
	}
	p.next = fmt.Sprint("circle@", len(s.requests)%2)
	s.epochs[p.epoch].at(p.rv).Scan(func(_ string, v *Version) bool {
		if r.Namespace == "" || v.Key.Namespace == r.Namespace {
			p.items = append(p.items, v.Raw)
		}
		return len(p.items) == 0
	})
}

// resourceVersion returns the resource version in the page's metadata.
func (p page) resourceVersion() string {
	if p.NoRV {
		return ""
	}
	return strconv.Itoa(p.rv)
}

// ends reports whether the answer ends early.
func (p page) ends() bool {
	return p.End == "cut" || p.End == "half" || p.End == "garbage" || p.End == "silent"
}

// json returns the page's body up to its end.
func (p page) json(of metav1.TypeMeta) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"kind":"%sList","apiVersion":%q,"metadata":{"resourceVersion":%q,"continue":%q},"items":[`, of.Kind,
		of.APIVersion, p.resourceVersion(), p.next)
	for i, item := range p.items {
		if p.ends() && i >= p.After {
			break
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(item)
	}
	switch p.End {
	case "half":
		b.WriteString(`,{"metadata":{"na`)
	case "garbage":
		b.WriteString("}}}\n")
	}
	if !p.ends() {
		b.WriteString("]}\n")
	}
	return b.Bytes()
}
