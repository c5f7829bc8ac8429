package past

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/internal/past"
	"github.com/gapless-io/gapless/kube"
)

// atHeader is in answers about the past (docs/extensions.md).
const atHeader = "Gapless-At"

// pageSize is how many changes, or objects, one request asks for. A page of changes has 8 MiB at most, besides one
// large change.
const pageSize = 500

// session asks one server.
type session struct {
	client    *client.Client
	host      string
	namespace string // of the context, or the one that was given
}

// open connects to the server that the flags name. The caller closes the client's idle connections.
func (p Program) open(connect connecting) (*session, error) {
	cfg, namespace, err := connect()
	if err != nil {
		return nil, err
	}
	c, err := client.New(cfg)
	if err != nil {
		return nil, err
	}
	return &session{client: c, host: cfg.Host, namespace: namespace}, nil
}

// errNoPast is that about a server that answers with the present.
var errNoPast = errors.New("keeps no past of")

// noPast is the error about a server that answered with the present.
func (s *session) noPast(t target) error {
	hint := ""
	if t.resource.GroupResource().String() == "secrets" {
		hint = "; a relay mirrors Secrets with --mirror-secrets only"
	}
	return fmt.Errorf("%s %w %s: it is no gapless server. Put a relay before it (gapless relay --kubeconfig "+
		"FILE, see docs/relay.md), and ask that: it knows what happens from then on%s", s.host, errNoPast,
		t.resource.GroupResource(), hint)
}

// change is one change of a page.
type change struct {
	Type            string // ADDED, MODIFIED or DELETED
	ResourceVersion kube.ResourceVersion
	Time            time.Time
	Object          past.Tree
	Previous        past.Tree // nil: there was none
	// Unseen reports that the server did not see the change: it found it.
	Unseen bool
}

// name is that of the object that changed; namespace "" if it is in none.
func (c *change) name() (namespace, name string) {
	return past.Text(c.Object, "metadata", "namespace"), past.Text(c.Object, "metadata", "name")
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *change) UnmarshalJSON(raw []byte) error {
	var wire struct {
		Type             string               `json:"type"`
		ResourceVersion  kube.ResourceVersion `json:"resourceVersion,string"`
		Time             time.Time            `json:"time"`
		Object, Previous json.RawMessage
	}
	if err := json.Unmarshal(raw, &wire); err != nil {
		return err
	}
	*c = change{Type: wire.Type, ResourceVersion: wire.ResourceVersion, Time: wire.Time}
	var err error
	if c.Object, err = past.Decode(wire.Object); err == nil && wire.Previous != nil {
		c.Previous, err = past.Decode(wire.Previous)
	}
	return err
}

// gap is a part of a history of which only the difference is known.
type gap struct {
	After kube.ResourceVersion `json:"after,string"`
	UpTo  kube.ResourceVersion `json:"upTo,string"`
}

// page is a page of changes.
type page struct {
	Kind     string               `json:"kind"`
	Metadata metav1.ListMeta      `json:"metadata"`
	After    kube.ResourceVersion `json:"after,string"`
	UpTo     kube.ResourceVersion `json:"upTo,string"`
	Gaps     []gap                `json:"gaps"`
	Items    []*change            `json:"items"`
}

// Orders of changes.
const (
	newestFirst = "NewestFirst"
	oldestFirst = "OldestFirst"
)

// Types of changes.
const (
	added    = "ADDED"
	modified = "MODIFIED"
	deleted  = "DELETED"
)

// asking is what changes are asked for.
type asking struct {
	order       string // NewestFirst or OldestFirst
	after, upTo past.Moment
	limit       int // of a page; 0: pageSize
}

func (a asking) query(t target) url.Values {
	q := url.Values{"changes": {a.order}, "limit": {strconv.Itoa(pageSize)}}
	if a.limit > 0 && a.limit < pageSize {
		q.Set("limit", strconv.Itoa(a.limit))
	}
	bound := func(m past.Moment, rv, at string) {
		switch {
		case m.RV != 0:
			q.Set(rv, m.RV.String())
		case !m.At.IsZero():
			q.Set(at, m.At.UTC().Format(time.RFC3339Nano))
		}
	}
	bound(a.after, "after", "since")
	bound(a.upTo, "upTo", "until")
	t.narrow(q)
	return q
}

// narrow adds the selectors to a query.
func (t target) narrow(q url.Values) {
	if t.labels != "" {
		q.Set("labelSelector", t.labels)
	}
	if t.fields != "" {
		q.Set("fieldSelector", t.fields)
	}
}

// path is that of the object, or of the collection.
func (t target) path() string {
	if t.name == "" {
		return t.of.Path()
	}
	return t.of.Path() + "/" + url.PathEscape(t.name)
}

// pages yields what is asked for, page by page. An error is the last thing that it yields.
func (s *session) pages(ctx context.Context, t target, a asking) iter.Seq2[*page, error] {
	return func(yield func(*page, error) bool) {
		for q := a.query(t); ; {
			got, err := s.page(ctx, t, q)
			if err != nil {
				yield(nil, fmt.Errorf("the changes of %s: %w", t, err))
				return
			}
			if !yield(got, nil) || got.Metadata.Continue == "" {
				return
			}
			for _, name := range []string{"after", "since", "upTo", "until"} {
				q.Del(name)
			}
			q.Set("continue", got.Metadata.Continue)
		}
	}
}

// page gets one page. Errors: noPast, those of the client.
func (s *session) page(ctx context.Context, t target, q url.Values) (*page, error) {
	resp, err := s.client.Do(ctx, client.Request{Path: t.path(), Query: q})
	if kube.Classify(err) == kube.OutcomeNotFound && t.name != "" {
		return nil, s.noPast(t) // a server that has changes has a page without one
	}
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	return s.decode(t, raw)
}

// decode decodes a page. Errors: noPast, those of what is no page.
func (s *session) decode(t target, raw []byte) (*page, error) {
	got := &page{}
	var kind metav1.TypeMeta
	if json.Unmarshal(raw, &kind) != nil || kind.Kind != "ChangeList" {
		return nil, s.noPast(t)
	}
	if err := json.Unmarshal(raw, got); err != nil {
		return nil, fmt.Errorf("read a page of changes: %w", err)
	}
	for _, c := range got.Items {
		if c == nil || c.Object == nil {
			return nil, errors.New("read a page of changes: a change has no object")
		}
		t.typed(c.Object)
		t.typed(c.Previous)
		for _, g := range got.Gaps { // a deletion that was found later has the version of the state before
			c.Unseen = c.Unseen || c.ResourceVersion <= g.UpTo &&
				(c.ResourceVersion > g.After || c.ResourceVersion == g.After && c.Type == deleted)
		}
	}
	return got, nil
}

// typed gives an object its kind, which items of some lists do not have.
func (t target) typed(o past.Tree) {
	if o != nil && o["kind"] == nil {
		o["apiVersion"], o["kind"] = t.resource.GroupVersion().String(), t.resource.Kind
	}
}

// at adds a moment to the query of a list or an object.
func at(q url.Values, m past.Moment) {
	if m.RV != 0 {
		q.Set("resourceVersion", m.RV.String())
		q.Set("resourceVersionMatch", string(metav1.ResourceVersionMatchExact))
		return
	}
	q.Set("at", m.At.UTC().Format(time.RFC3339Nano))
}

// errNotThen is that of an object that did not exist.
var errNotThen = errors.New("did not exist at that time")

// explained adds to an error of a state what it means, and what to do.
func explained(p Program, s *session, t target, err error) error {
	switch expired := kube.WhyExpired(err); {
	case errors.Is(err, ErrPresent):
		return s.noPast(t)
	case expired != nil && !expired.OldestTime.IsZero():
		return fmt.Errorf("history goes back to %s only (resourceVersion %s): %s",
			p.shown(expired.OldestTime), expired.Oldest, expired.Why())
	case expired != nil:
		return fmt.Errorf("history does not go back so far: %s", expired.Why())
	}
	return err
}

// ErrPresent is the error of a client of [At] whose server answered with the present.
var ErrPresent = errors.New("the answer is about the present")

// lists is a transport that adds a moment to lists that have a limit, and refuses answers about the present. The
// pages behind the first one continue at the same moment.
type lists struct {
	next http.RoundTripper
	at   past.Moment
}

// RoundTrip implements http.RoundTripper.
func (l lists) RoundTrip(r *http.Request) (*http.Response, error) {
	q := r.URL.Query()
	if !q.Has("limit") || q.Has("continue") {
		return l.next.RoundTrip(r)
	}
	at(q, l.at)
	own := r.Clone(r.Context())
	own.URL.RawQuery = q.Encode()
	resp, err := l.next.RoundTrip(own)
	if err == nil && resp.StatusCode == http.StatusOK && isPresent(resp, l.at) {
		return nil, errors.Join(ErrPresent, resp.Body.Close())
	}
	return resp, err
}

// At returns a copy of c whose lists are about a time: those that have a limit, and the pages behind them. The server
// must keep the past: otherwise the error is [ErrPresent].
func At(c *client.Client, t time.Time) *client.Client {
	return c.Through(func(next http.RoundTripper) http.RoundTripper { return lists{next, past.Moment{At: t}} })
}

// isPresent reports whether a list is one of the present. One at a resourceVersion never is: every server knows it.
func isPresent(resp *http.Response, m past.Moment) bool {
	return m.RV == 0 && resp.Header.Get(atHeader) == ""
}

// when asks for lists at a moment.
func (s *session) when(m past.Moment) *client.Client {
	return s.client.Through(func(next http.RoundTripper) http.RoundTripper { return lists{next, m} })
}

// object gets one object as it was, in a form. Errors: noPast, those of the client. The caller closes the body.
func (s *session) object(ctx context.Context, t target, m past.Moment, accept string) (*http.Response, error) {
	q := url.Values{}
	at(q, m)
	resp, err := s.client.Do(ctx, client.Request{Path: t.path(), Query: q, Accept: accept})
	switch {
	case kube.Classify(err) == kube.OutcomeNotFound:
		if _, err := s.page(ctx, t, asking{order: newestFirst, limit: 1}.query(t)); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("it %w (%s): gapless history %s shows when it did", errNotThen, m, t)
	case err != nil:
		return nil, err
	case resp.Header.Get(atHeader) == "":
		return nil, errors.Join(s.noPast(t), resp.Body.Close())
	}
	return resp, nil
}
