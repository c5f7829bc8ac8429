package load

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/gapless-io/gapless/conformance/crash/program"
	"github.com/gapless-io/gapless/conformance/crash/record"
)

// readPause is the mean time between two reads of a reader.
const readPause = 60 * time.Millisecond

// read is one reader: it reads single objects and lists, in each way that a
// resourceVersion allows.
func (l *Load) read(ctx context.Context, random *rand.Rand, c *program.Client) {
	for wait(ctx, between(random, max(readPause, l.cfg.Calm))) {
		s := l.scopes[random.IntN(len(l.scopes))]
		if random.IntN(2) == 0 {
			s.Namespace = ""
		}
		switch random.IntN(8) {
		case 0, 1:
			l.get(ctx, l.keys[random.IntN(len(l.keys))], c)
		case 2:
			l.getAny(ctx, l.keys[random.IntN(len(l.keys))], c)
		case 3:
			l.readList(ctx, reading{scope: s, least: l.record.Highest()}, c)
		case 4:
			l.readList(ctx, reading{scope: s, query: url.Values{"resourceVersion": {"0"}}}, c)
		case 5:
			rv := l.record.Highest()
			l.readList(ctx, reading{scope: s, least: rv, query: url.Values{
				"resourceVersion": {strconv.FormatInt(rv, 10)}, "resourceVersionMatch": {"NotOlderThan"},
			}}, c)
		case 6:
			rv := max(1, l.record.Highest()-random.Int64N(3000))
			l.readList(ctx, reading{scope: s, least: rv, most: rv, query: url.Values{
				"resourceVersion": {strconv.FormatInt(rv, 10)}, "resourceVersionMatch": {"Exact"}, "limit": {"500"},
			}}, c)
		case 7:
			l.readList(ctx,
				reading{scope: s, least: l.record.Highest(), query: url.Values{"limit": {strconv.Itoa(5 + random.IntN(40))}}}, c)
		}
	}
}

// get reads the most recent state of an object.
func (l *Load) get(ctx context.Context, k record.Key, c *program.Client) {
	before := l.record.Known(k)
	a := c.Do(ctx, http.MethodGet, pathOf(scopeOf(k))+"/"+k.Name, nil)
	switch a.Code {
	case http.StatusOK:
		var w wire
		if err := json.Unmarshal(a.Body, &w); err != nil {
			l.record.Violation("GET %s: %v", k, err)
			return
		}
		v := w.version(k.Resource)
		l.record.Got(k, &v, before)
	case http.StatusNotFound:
		l.record.Got(k, nil, before)
	default:
		l.unexpected("GET "+k.String(), a)
	}
}

// getAny reads any state of an object.
func (l *Load) getAny(ctx context.Context, k record.Key, c *program.Client) {
	a := c.Do(ctx, http.MethodGet, pathOf(scopeOf(k))+"/"+k.Name+"?resourceVersion=0", nil)
	switch a.Code {
	case http.StatusOK:
		var w wire
		if err := json.Unmarshal(a.Body, &w); err != nil {
			l.record.Violation("GET %s: %v", k, err)
			return
		}
		l.record.Versions("a GET of any version", w.version(k.Resource))
	case http.StatusNotFound:
	default:
		l.unexpected("GET of any version of "+k.String(), a)
	}
}

// reading is one LIST, of one or of more pages, and between which
// resourceVersions its answer has to be; most 0 is no limit.
type reading struct {
	scope       record.Scope
	query       url.Values
	least, most int64
}

func (l *Load) readList(ctx context.Context, r reading, c *program.Client) {
	name := fmt.Sprintf("LIST %s?%s", r.scope, r.query.Encode())
	list := record.List{Scope: r.scope}
	query := r.query
	for page := 0; ; page++ {
		a := c.Do(ctx, http.MethodGet, pathOf(r.scope)+"?"+query.Encode(), nil)
		if a.Code == http.StatusGone && (r.most != 0 || page > 0) {
			l.record.Expired(a.At, max(r.most, list.RV))
			return
		}
		var w wire
		if a.Code != http.StatusOK {
			l.unexpected(name, a)
			return
		}
		if err := json.Unmarshal(a.Body, &w); err != nil {
			l.record.Violation("%s: %v", name, err)
			return
		}
		rv := w.rv()
		if page == 0 && (rv < r.least || r.most != 0 && rv > r.most) || page > 0 && rv != list.RV {
			l.record.Violation("%s: page %d is at %d, want at least %d, at most %d; page 0 is at %d",
				name, page, rv, r.least, r.most, list.RV)
			return
		}
		list.RV = rv
		list.Items = append(list.Items, w.versions(r.scope.Resource)...)
		if w.Metadata.Continue == "" {
			break
		}
		query = url.Values{"limit": r.query["limit"], "continue": {w.Metadata.Continue}}
	}
	l.record.Listed(list, name)
}
