package wire_test

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/internal/wire"
)

func query(t *testing.T, raw string) url.Values {
	t.Helper()
	q, err := url.ParseQuery(raw)
	if err != nil {
		t.Fatalf("parse query: %v", err)
	}
	return q
}

// statusText is "code reason: message", "" for no error.
func statusText(err error) string {
	if err == nil {
		return ""
	}
	s := wire.StatusOf(err)
	return fmt.Sprintf("%d %s: %s", s.Code, s.Reason, s.Message)
}

func TestBooleansAreReadAsKubernetesDoes(t *testing.T) {
	for raw, want := range map[string]bool{
		"": false, "watch=0": false, "watch=false": false, "watch=FALSE": false, "watch=False": false,
		"watch": true, "watch=": true, "watch=1": true, "watch=true": true, "watch=True": true, "watch=no": true,
		"watch=00":               true,
		"watch=false&watch=true": false, "watch=true&watch=false": true, "Watch=true": false,
	} {
		if got := wire.ParseBool(query(t, raw), "watch"); got != want {
			t.Errorf("%q is %v, want %v", raw, got, want)
		}
	}
}

func TestOptionsAreRead(t *testing.T) {
	o, err := wire.ParseListOptions(query(t,
		"watch=1&allowWatchBookmarks=True&resourceVersion=1000000007&resourceVersionMatch=NotOlderThan"+
			"&sendInitialEvents=0&timeoutSeconds=42&limit=500&continue=abc&labelSelector=a%3Db,c+in+(d,e)&fieldSelector=metadata.name%3Dx&shardSelector=y&bookmarkIntervalSeconds=7&gaplessDelta=1&pretty"), false)
	if err != nil {
		t.Fatalf("parse list options: %v", err)
	}
	if !o.Watch || !o.Bookmarks || o.RV != 1000000007 || o.ResourceVersion != "1000000007" || o.Match != wire.MatchNotOlderThan ||
		o.InitialEvents == nil || *o.InitialEvents || o.TimeoutSeconds == nil || *o.TimeoutSeconds != 42 || o.Limit != 500 ||
		o.Continue != "abc" ||
		o.Shard != "y" || o.BookmarkInterval == nil || *o.BookmarkInterval != 7 ||
		o.BookmarkEvery(time.Minute) != 7*time.Second || !o.Delta {
		t.Errorf("%+v", o)
	}
	if got := o.Labels.String(); got != "a=b,c in (d,e)" {
		t.Errorf("labels: %s", got)
	}
	if got := o.Fields.String(); got != "metadata.name=x" {
		t.Errorf("fields: %s", got)
	}
}

func TestNoOptionsSelectEverything(t *testing.T) {
	o, err := wire.ParseListOptions(url.Values{}, false)
	if err != nil {
		t.Fatalf("parse list options: %v", err)
	}
	if !o.Labels.Empty() || !o.Fields.Empty() || o.Watch || o.Bookmarks || o.InitialEvents != nil || o.TimeoutSeconds != nil ||
		o.Limit != 0 ||
		o.Shard != "" || o.BookmarkInterval != nil || o.BookmarkEvery(time.Minute) != time.Minute || o.Delta {
		t.Errorf("%+v", o)
	}
}

func TestPathCanRequestAWatch(t *testing.T) {
	o, err := wire.ParseListOptions(query(t, "watch=false"), true)
	if err != nil || !o.Watch {
		t.Errorf("watch: %v, %v", o.Watch, err)
	}
}

func TestNegativeLimitIsNoLimit(t *testing.T) {
	o, err := wire.ParseListOptions(query(t, "limit=-1"), false)
	if err != nil || o.Limit != 0 {
		t.Errorf("limit %d, %v", o.Limit, err)
	}
}

func TestTimeoutSecondsAlwaysFitADuration(t *testing.T) {
	for raw, want := range map[string]int64{
		"9223372036854775807": int64(math.MaxInt64 / time.Second), "-9223372036854775808": -int64(math.MaxInt64 / time.Second),
		"-1": -1, "0": 0,
	} {
		o, err := wire.ParseListOptions(query(t, "timeoutSeconds="+raw), false)
		if err != nil || *o.TimeoutSeconds != want {
			t.Errorf("%s: %v, %v", raw, *o.TimeoutSeconds, err)
		}
	}
}

func TestMalformedOptionsAreBadRequests(t *testing.T) {
	for raw, want := range map[string]string{
		"resourceVersion=abc": `invalid resource version: resourceVersion: Invalid value: "abc": ` +
			`strconv.ParseUint: parsing "abc": invalid syntax`,
		"resourceVersion=-5": `invalid resource version: resourceVersion: Invalid value: "-5": ` +
			`strconv.ParseUint: parsing "-5": invalid syntax`,
		"watch&resourceVersion=abc": `invalid resource version: resourceVersion: Invalid value: "abc": ` +
			`strconv.ParseUint: parsing "abc": invalid syntax`,
		"timeoutSeconds=abc":                  `strconv.ParseInt: parsing "abc": invalid syntax`,
		"timeoutSeconds=":                     `strconv.ParseInt: parsing "": invalid syntax`,
		"limit=1.5":                           `strconv.ParseInt: parsing "1.5": invalid syntax`,
		"limit=9223372036854775808":           `strconv.ParseInt: parsing "9223372036854775808": value out of range`,
		"timeout=abc":                         `invalid timeout specified in the request URL - time: invalid duration "abc"`,
		"labelSelector=!!":                    `unable to parse requirement: found '!', expected: identifier`,
		"watch=1&bookmarkIntervalSeconds=":    `strconv.ParseInt: parsing "": invalid syntax`,
		"watch=1&bookmarkIntervalSeconds=1.5": `strconv.ParseInt: parsing "1.5": invalid syntax`,
		"fieldSelector=metadata.nam":          `invalid selector: 'metadata.nam'; can't understand 'metadata.nam'`,
	} {
		_, err := wire.ParseListOptions(query(t, raw), false)
		if diff := cmp.Diff("400 BadRequest: "+want, statusText(err)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", raw, diff)
		}
	}
}

func TestTimeoutIsIgnoredOnWatch(t *testing.T) {
	if _, err := wire.ParseListOptions(query(t, "watch=1&timeout=abc"), false); err != nil {
		t.Errorf("parse list options: %v", err)
	}
	if d, err := wire.ParseTimeout(query(t, "timeout=32s")); err != nil || d != 32*time.Second {
		t.Errorf("timeout %v, %v", d, err)
	}
}

func TestBookmarkIntervalIsIgnoredOnLists(t *testing.T) {
	o, err := wire.ParseListOptions(query(t, "bookmarkIntervalSeconds=soon"), false)
	if err != nil || o.BookmarkInterval != nil {
		t.Errorf("%v, %v", o.BookmarkInterval, err)
	}
}

func FuzzParseListOptions(f *testing.F) {
	f.Add("watch=1&resourceVersion=5&limit=-1&timeoutSeconds=9&sendInitialEvents&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true")
	f.Add("labelSelector=a+in+(b,,c),!d,e%3Df&fieldSelector=x%3D%5C,y!%3Dz&continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NSwic3RhcnQiOiJhXHUwMDAwIn0")
	f.Add("resourceVersion=00&resourceVersionMatch=Exact&timeout=1h")
	f.Add("watch&sendInitialEvents&resourceVersionMatch=NotOlderThan&resourceVersion=3&allowWatchBookmarks&gaplessDelta&bookmarkIntervalSeconds=3600")
	f.Add("watch&bookmarkIntervalSeconds=-1&gaplessDelta=true&shardSelector=shardRange(object.metadata.uid,'0x0000000000000000','0x8000000000000000')")
	f.Fuzz(func(t *testing.T, raw string) {
		q, err := url.ParseQuery(raw)
		if err != nil {
			return
		}
		o, err := wire.ParseListOptions(q, false)
		if err != nil {
			if _, is := errors.AsType[*wire.StatusError](err); !is || wire.StatusOf(err).Code != 400 {
				t.Fatalf("%v is not 400", err)
			}
			return
		}
		if o.Labels == nil || o.Fields == nil || o.Limit < 0 {
			t.Fatalf("%+v", o)
		}
		// Every plan has a mode, or an error with a Status.
		if o.Watch {
			p, err := wire.PlanWatch(o)
			if (err == nil) != (p.Start != 0) || err != nil && wire.StatusOf(err).Code != 422 {
				t.Fatalf("%+v: %+v, %v", o, p, err)
			}
			if every := o.BookmarkEvery(time.Minute); err == nil &&
				(every < time.Second || every > time.Hour || p.Delta && !p.EndBookmark) {
				t.Fatalf("%+v: %+v, bookmarks every %v", o, p, every)
			}
			return
		}
		p, err := wire.PlanList(o)
		if (err == nil) != (p.Mode != 0) || err != nil && wire.StatusOf(err).Code != 422 && wire.StatusOf(err).Code != 400 {
			t.Fatalf("%+v: %+v, %v", o, p, err)
		}
	})
}
