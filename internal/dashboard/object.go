package dashboard

import (
	"cmp"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gapless-io/gapless/internal/past"
)

// objectVersions is how many versions of an object a page shows.
const objectVersions = 40

type objectPage struct {
	Of              Resource
	Namespace, Name string
	Life            []timelineRow // newest first
	A, B            string        // the resourceVersions that are compared
	At              string        // the resourceVersion of the moment that is shown; "": now
	Typed           typed
	Rows            []row
	More            int    // rows that are left out
	YAML            string // of B
	CutYAML         int    // bytes of it that are left out
	Older           uint64
	Secret, Reveals bool
	MayReveal       bool // if it is a Secret
	From, To        time.Time
	Problem         string
	Past            bool // newer changes are left out

	mask  *past.Masker
	known map[string]object // what changes have said, by resourceVersion; nil: it did not exist
}

// typed are the moments of a request as somebody has written them.
type typed struct{ A, B, At string }

// Link is the query of this page for two versions.
func (p *objectPage) Link(a, b string) template.URL {
	q := url.Values{"r": {p.Of.ID()}, "name": {p.Name}}
	for key, value := range map[string]string{"ns": p.Namespace, "a": a, "b": b} {
		if value != "" {
			q.Set(key, value)
		}
	}
	if p.Reveals {
		q.Set("reveal", "1")
	}
	return template.URL(q.Encode()) //nolint:gosec // nothing in it needs escaping
}

// Bounds of what a page shows, in bytes of the page. The whole object can be downloaded.
const (
	maxYAML       = 30 << 10
	maxDifference = 60 << 10
)

// named returns the object that a request names.
func (d *Dashboard) named(r *http.Request) (p objectPage, err error) {
	q := r.URL.Query()
	all, err := d.resources(r)
	if err != nil {
		return p, err
	}
	at := slices.IndexFunc(all, func(t Resource) bool { return t.ID() == q.Get("r") })
	if at < 0 || q.Get("name") == "" {
		return p, &Refusal{Code: http.StatusNotFound, Message: "There is no such resource, or no name of an object."}
	}
	p = objectPage{Of: all[at], Namespace: q.Get("ns"), Name: q.Get("name")}
	if p.Of.Namespaced && p.Namespace == "" {
		return p, &Refusal{Code: http.StatusNotFound, Message: p.Of.Plural + " are in namespaces: name one."}
	}
	for _, rv := range []string{q.Get("rv"), q.Get("before")} {
		if _, wrong := strconv.ParseUint(cmp.Or(rv, "1"), 10, 64); wrong != nil {
			return p, &Refusal{Code: http.StatusBadRequest, Message: "A resourceVersion is a number."}
		}
	}
	p.Typed = typed{momentText(q, "a"), momentText(q, "b"), momentText(q, "at")}
	p.Secret, p.mask = p.Of.isSecret(), past.NewMasker()
	p.MayReveal = d.cfg.Open == nil
	p.Reveals = p.Secret && q.Has("reveal") && p.MayReveal // the API is asked to get it, and refuses who may not
	return p, nil
}

func (d *Dashboard) object(w http.ResponseWriter, r *http.Request) error {
	p, err := d.named(r)
	if err != nil {
		return err
	}
	if err := d.moments(r, &p); err != nil {
		if isRefused(err, http.StatusBadRequest) {
			return err
		}
		p.Problem, p.A, p.B, p.At = err.Error(), "", "", ""
	}
	list, err := d.versions(r, &p)
	if err != nil {
		return err
	}
	p.lives(list)
	if err := d.compared(r, &p, list); err != nil {
		p.Problem = err.Error()
	}
	d.render(w, r, view{Page: "object", Code: http.StatusOK, Title: p.Of.Kind + " " + p.Name, Data: &p})
	return nil
}

// versions asks for the newest changes of the object, or those before the one that the request names.
func (d *Dashboard) versions(r *http.Request, p *objectPage) (*changes, error) {
	query := url.Values{"changes": {"NewestFirst"}, "limit": {strconv.Itoa(objectVersions)}}
	if upTo := cmp.Or(r.URL.Query().Get("before"), p.At); upTo != "" {
		p.Past = true
		query.Set("upTo", upTo)
	}
	list, err := d.changes(r, selection{p.Of, p.Namespace, p.Name, p.mask, p.Reveals}, query, mediaJSON)
	if err != nil {
		return nil, err
	}
	if list == nil {
		return nil, &Refusal{Code: http.StatusNotFound, Message: "Who serves " + p.Of.ID() + " keeps no history."}
	}
	p.known = map[string]object{}
	for i := range list.Items {
		c := &list.Items[i]
		if rv := past.Text(c.Previous, "metadata", "resourceVersion"); rv != "" {
			p.known[rv] = c.Previous
		}
		_, p.known[c.ResourceVersion] = c.states()
	}
	return list, nil
}

// lives makes the life of the object of its changes.
func (p *objectPage) lives(list *changes) {
	deleted := false
	for i := range slices.Backward(list.Items) { // oldest first: what comes after a deletion is created again
		of := rowOf(&list.Items[i])
		if of.Class == "created" && deleted {
			of.Class = "recreated"
		}
		deleted = deleted || of.Class == "deleted"
		p.Life = append(p.Life, of)
	}
	slices.Reverse(p.Life)
	if len(p.Life) > 0 {
		p.To, p.From = p.Life[0].Time, p.Life[len(p.Life)-1].Time
	}
	if list.Metadata.Continue != "" {
		p.Older = number(list.After)
	}
}

// compared reads the two versions that are compared: unless others are named, the newest and the one before.
func (d *Dashboard) compared(r *http.Request, p *objectPage, list *changes) error {
	if p.B == "" && len(list.Items) > 0 {
		p.B = list.Items[0].ResourceVersion
	}
	var before, after object
	if p.B == "" { // it was not changed since history begins
		then, err := d.version(r, p, p.At)
		if err != nil || then == nil {
			return err
		}
		p.B = past.Text(then, "metadata", "resourceVersion")
		p.known[p.B] = then
	}
	at := slices.IndexFunc(list.Items, func(c change) bool { return c.ResourceVersion == p.B })
	switch {
	case at >= 0 && p.A == "":
		c := &list.Items[at]
		before, after = c.states()
		p.A = past.Text(c.Previous, "metadata", "resourceVersion")
		if c.Type == "DELETED" && at+1 < len(list.Items) {
			p.A = list.Items[at+1].ResourceVersion
		}
	default:
		var err error
		if after, err = d.version(r, p, p.B); err != nil {
			return err
		}
		if before = after; p.A != "" {
			if before, err = d.version(r, p, p.A); err != nil {
				return err
			}
		}
	}
	room := maxDifference
	p.Rows, p.More = sideBySide(before, after, &room)
	whole := asYAML(after)
	p.YAML = fit(whole, maxYAML)
	p.CutYAML = len(whole) - len(p.YAML)
	return nil
}

// version returns an object as it was at a resourceVersion, or as it is if that is ""; nil: it did not exist.
func (d *Dashboard) version(r *http.Request, p *objectPage, rv string) (object, error) {
	if o, is := p.known[rv]; is {
		return o, nil
	}
	var o object
	query := url.Values{}
	if rv == "" && p.Of.Reached > 0 {
		rv = strconv.FormatUint(p.Of.Reached, 10)
	}
	if rv != "" {
		query = url.Values{"resourceVersion": {rv}, "resourceVersionMatch": {"Exact"}}
	}
	err := d.askFor(r, p.Of.path(p.Namespace, p.Name)+"?"+query.Encode(), mediaJSON, &o)
	if isRefused(err, http.StatusNotFound) {
		return nil, nil
	}
	if p.Secret && !p.Reveals {
		o = masked(p.mask, o)
	}
	return o, err
}

// download answers with a version of an object, or the present one, as a file with YAML.
func (d *Dashboard) download(w http.ResponseWriter, r *http.Request) error {
	p, err := d.named(r)
	if err != nil {
		return err
	}
	rv := r.URL.Query().Get("rv")
	o, err := d.version(r, &p, rv)
	if isRefused(err, http.StatusGone) { // a relay knows what it began with by its first changes only
		if _, failed := d.versions(r, &p); failed == nil && p.known[rv] != nil {
			o, err = p.known[rv], nil
		}
	}
	if err != nil {
		return err
	}
	if o == nil {
		return &Refusal{Code: http.StatusNotFound, Message: "The object did not exist then."}
	}
	name := p.Of.Plural + "-" + p.Name + "-" + past.Text(o, "metadata", "resourceVersion") + ".yaml"
	w.Header().Set("Content-Type", "application/yaml")
	w.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", fileName(name)))
	_, _ = w.Write([]byte(asYAML(o))) // the client may be gone
	return nil
}

// fileName replaces what a file's name should not have; names of roles have colons.
func fileName(name string) string {
	return strings.Map(func(c rune) rune {
		if c < 0x7f && strings.ContainsRune("-._", c) || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
			return c
		}
		return '_'
	}, name)
}
