package dashboard

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/gapless-io/gapless/status"
)

// What the overview shows of the changes of a resource.
const (
	sparkMinutes = 30
	// sparkChanges is how many changes of a resource are read at most: with more, the line begins later.
	sparkChanges = 1000
	// overviewRows is how many resources are shown; with more, those with the most changes.
	overviewRows = 90
)

// overviewRow is a resource of the overview.
type overviewRow struct {
	Resource
	Objects   int64
	PerMinute []int // changes, the last minute last; shorter than sparkMinutes where not all were read
	Changes   int   // of all of PerMinute
	More      bool  // there were more
	From      time.Time
	FromRV    string
	Share     int // of the longest history, in per cent
	Watches   int
	Behind    uint64 // the last of the watches, in revisions
	Problem   string
}

type overviewPage struct {
	Rows            []overviewRow
	Omitted         int
	Empty, Hidden   int // resources without objects and changes, and those that the caller may not list
	Now             time.Time
	Objects         int64
	Changes         int
	Watches         int
	Storage         status.Storage
	ShowsAll, Knows bool // empty resources too; watches are known, and the storage
}

func (d *Dashboard) overview(w http.ResponseWriter, r *http.Request) error {
	all, err := d.resources(r)
	if err != nil {
		return err
	}
	page := overviewPage{Now: time.Now().UTC(), ShowsAll: r.URL.Query().Has("all")}
	open := map[string]overviewRow{}
	if storage, err := d.storage(r); err == nil && d.cfg.Watches != nil {
		page.Knows, page.Storage = true, storage
		for _, watch := range d.cfg.Watches() {
			of := open[watch.Resource]
			of.Watches, of.Behind = of.Watches+1, max(of.Behind, watch.Behind)
			open[watch.Resource] = of
			page.Watches++
		}
	}
	longest := time.Minute
	for _, t := range all {
		row, err := d.summary(r, t, page.Now)
		if isRefused(err, http.StatusForbidden) {
			page.Hidden++
			continue
		}
		if err != nil {
			row.Problem = err.Error()
		}
		row.Watches, row.Behind = open[t.GR()].Watches, open[t.GR()].Behind
		page.Objects, page.Changes = page.Objects+row.Objects, page.Changes+row.Changes
		if row.Objects == 0 && row.From.IsZero() && row.Watches == 0 && row.Problem == "" {
			if page.Empty++; !page.ShowsAll {
				continue
			}
		}
		if !row.From.IsZero() {
			longest = max(longest, page.Now.Sub(row.From))
		}
		page.Rows = append(page.Rows, row)
	}
	if len(page.Rows) > overviewRows {
		slices.SortStableFunc(page.Rows, func(a, b overviewRow) int {
			return cmpDescending(uint64(a.Changes), uint64(b.Changes))
		})
		page.Omitted, page.Rows = len(page.Rows)-overviewRows, page.Rows[:overviewRows]
	}
	for i := range page.Rows {
		if from := page.Rows[i].From; !from.IsZero() {
			page.Rows[i].Share = max(1, int(100*page.Now.Sub(from)/longest))
		}
	}
	d.render(w, r, view{Page: "overview", Code: http.StatusOK, Title: "Overview", Live: true, Data: page})
	return nil
}

// summary reads what the overview says of a resource.
func (d *Dashboard) summary(r *http.Request, t Resource, now time.Time) (overviewRow, error) {
	row := overviewRow{Resource: t}
	path := t.path("", "")
	var list struct {
		Metadata struct{ RemainingItemCount int64 }
		Items    []json.RawMessage
	}
	query := url.Values{"limit": {"1"}}
	if t.Reached > 0 {
		query.Set("resourceVersion", "0") // what is there, without asking whether it is the newest
	}
	if err := d.askFor(r, path+"?"+query.Encode(), mediaMetadata, &list); err != nil {
		return row, err
	}
	row.Objects = int64(len(list.Items)) + list.Metadata.RemainingItemCount
	oldest, err := d.changes(r, selection{Of: t}, url.Values{"changes": {"OldestFirst"}, "limit": {"1"}, "previous": {"false"}},
		mediaMetadata)
	if err != nil || oldest == nil || len(oldest.Items) == 0 {
		return row, err
	}
	row.From, row.FromRV = oldest.Items[0].Time.UTC(), oldest.After
	since := now.Truncate(time.Minute).Add(-(sparkMinutes - 1) * time.Minute)
	query = url.Values{"changes": {"NewestFirst"}, "limit": {strconv.Itoa(sparkChanges)}, "previous": {"false"}}
	if row.From.Before(since) {
		query.Set("since", since.Format(time.RFC3339Nano))
	}
	newest, err := d.changes(r, selection{Of: t}, query, mediaMetadata)
	if err != nil || newest == nil {
		return row, err
	}
	row.PerMinute = make([]int, sparkMinutes)
	for i := range newest.Items {
		if at := int(newest.Items[i].Time.Sub(since) / time.Minute); at >= 0 {
			row.PerMinute[min(at, sparkMinutes-1)]++
			row.Changes++
		}
	}
	row.More = newest.Metadata.Continue != ""
	return row, nil
}

// Gap is what the longest history is longer, in per cent.
func (o overviewRow) Gap() int { return 100 - o.Share }
