package dashboard_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gapless-io/gapless/internal/dashboard"
)

// FuzzPages asks for pages with any query, of an API that answers with any text.
func FuzzPages(f *testing.F) {
	const object = `{"kind":"ConfigMap","metadata":{"name":"a","namespace":"b","resourceVersion":"5",` +
		`"managedFields":[{"manager":"x"}]}}`
	const list = `{"kind":"ChangeList","after":"1","upTo":"9","metadata":{"continue":"x"},"items":[
{"type":"MODIFIED","resourceVersion":"5","time":"2026-11-25T14:00:00.123Z","object":` + object + `,"previous":{"data":1}},
{"type":"DELETED","resourceVersion":"6","object":` + object + `}]}`
	const relay = `{"upstream":"https://a","upstreamAway":"b","resources":[{"resource":"pods.v1","problem":"x","bytesServed":-1,
"watchesExpired":{"age":1}}],"storage":{"lost":"<b>"}}`
	const replica = `{"id":"a","etcd":{"members":[{"endpoint":"e","alarms":["NOSPACE"]}],"problems":["p"]},"holes":[{}],
"replicas":[{"id":"a"},{"id":"b"}],"unreadable":[{"name":"n"}],"overrides":[{"resources":["events"],"etcd":{}}]}`
	const faults = `{"rules":[{"rule":{"action":"gone"},"name":"<b>","action":"gone","matched":-1,"problem":"p"}]}`
	for _, path := range []string{
		"/", "/timeline", "/object", "/object.yaml", "/between", "/watches", "/relay", "/blame", "/replicas", "/faults",
	} {
		f.Add(path, "r=secrets.v1&ns=b&name=a&at=2h&a=1h&status=1", list)
		f.Add(path, "r=secrets.v1&ns=b&name=a&at=5&a=2026-11-25%2014:05&b=14:05&page=eyJyIjoiYSIsImwiOnRydWV9", relay)
		f.Add(path, "a=5&page=eyJyIjoic2VjcmV0cy52MSIsImwiOnRydWUsIm8iOiJ4In0", replica)
		f.Add(path, "a=2h&kind=secrets.v1",
			`{"kind":"ChangeList","metadata":{"continue":"x"},"items":[{"metadata":{"name":"c"}},null]}`)
		f.Add(path, "", faults)
		f.Add(path, "r=secrets.v1&ns=b&name=a&a=4&b=5&rv=5&before=7&kind=secrets.v1&label=a%3Db&manager=m&text=t&reveal=1&all=1",
			list)
		f.Add(path, "r=configmaps.v1&ns=../..&name=a%2Fb&b=99999999999999999999&before=-1", object)
		f.Add(path, "%zz&a=;b", `{"items":[{"metadata":[]}],"metadata":{"remainingItemCount":-1}}`)
	}
	api := &canned{}
	d, err := dashboard.New(dashboard.Config{
		API: api, Open: func(r *http.Request) *http.Request { return r }, Mirrors: true, StatusPath: "/status",
		Replicates: true, FaultsPath: "/faults",
		Newest: func() uint64 { return 9 }, Watches: func() []dashboard.Watch { return nil },
		Resources: func() []dashboard.Resource {
			return []dashboard.Resource{
				{Version: "v1", Plural: "configmaps", Kind: "ConfigMap", Namespaced: true},
				{Version: "v1", Plural: "secrets", Kind: "Secret", Namespaced: true, Reached: 9},
			}
		},
	})
	if err != nil {
		f.Fatalf("make a dashboard: %v", err)
	}
	f.Fuzz(func(t *testing.T, path, query, answer string) {
		if path = "/" + strings.TrimLeft(path, "/"); path == "/live" {
			return // it does not end
		}
		api.body, api.asked = answer, nil
		r := httptest.NewRequest(http.MethodGet, "http://localhost/", nil)
		r.URL = &url.URL{Path: path, RawQuery: query}
		w := httptest.NewRecorder()
		d.ServeHTTP(w, r)
		if w.Code == http.StatusInternalServerError && strings.Contains(w.Body.String(), "could not be made") {
			t.Errorf("%s?%s: %s", path, query, w.Body)
		}
		if w.Body.Len() > 2*maxPage { // an answer may have more rows than were asked for
			t.Skip("a long answer")
		}
		for _, asked := range api.asked {
			if !strings.HasPrefix(asked, "/api/v1/") && asked != "/status" && asked != "/faults" ||
				strings.Contains(asked, "/../") {
				t.Errorf("%s?%s asks for %q", path, query, asked)
			}
		}
	})
}

// canned answers everything with the same body, and notes what it is asked.
type canned struct {
	body  string
	asked []string
}

func (c *canned) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.asked = append(c.asked, r.URL.EscapedPath())
	_, _ = io.WriteString(w, c.body)
}

// FuzzSecrets makes the pages of a Secret of any shape: what stands in its data is on none of them.
func FuzzSecrets(f *testing.F) {
	f.Add(`{"data":{"key":"VALUE"}}`, "MODIFIED")
	f.Add(`{"kind":"ConfigMap","apiVersion":"v2","stringData":{"key":"VALUE"},"data":"VALUE","metadata":{"name":"a"}}`, "ADDED")
	f.Add(`{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"VALUE"}}}`, "DELETED")
	f.Fuzz(func(t *testing.T, text, kind string) {
		const value = "correct-horse-battery"
		text = strings.ReplaceAll(text, "VALUE", value)
		var secret struct {
			Data, StringData any
		}
		if json.Unmarshal([]byte(text), &secret) != nil {
			return
		}
		hidden, err := json.Marshal(secret)
		if err != nil || strings.Count(text, value) > strings.Count(string(hidden), value) {
			return // it is elsewhere too
		}
		kind, _ = strings.CutPrefix(kind, `"`)
		change, err := json.Marshal(map[string]any{
			"type": kind, "resourceVersion": "5", "time": time.Time{}, "object": json.RawMessage(text),
			"previous": json.RawMessage(text),
		})
		if err != nil {
			return
		}
		api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Query().Has("changes"):
				_, _ = io.WriteString(w, `{"kind":"ChangeList","items":[`+string(change)+`]}`)
			case strings.HasSuffix(r.URL.Path, "/secrets") && !r.URL.Query().Has("resourceVersion"): // it is new
				_, _ = io.WriteString(w, `{"items":[`+text+`]}`)
			default:
				_, _ = io.WriteString(w, text)
			}
		})
		d, err := dashboard.New(dashboard.Config{
			API: api, Open: func(r *http.Request) *http.Request { return r }, Newest: func() uint64 { return 9 },
			Resources: func() []dashboard.Resource {
				return []dashboard.Resource{{Version: "v1", Plural: "secrets", Kind: "Secret", Namespaced: true}}
			},
		})
		if err != nil {
			t.Fatalf("make a dashboard: %v", err)
		}
		for _, path := range []string{
			"/timeline", "/between?a=1&b=9", "/between?a=1h&status=1", "/between?a=1&page=eyJyIjoic2VjcmV0cy52MSIsImwiOnRydWV9",
			"/blame?r=secrets.v1&ns=a&name=b", "/blame?r=secrets.v1&ns=a&name=b&reveal=1&status=1",
			"/object?r=secrets.v1&ns=a&name=b&at=1h", "/object?r=secrets.v1&ns=a&name=b",
			"/object?r=secrets.v1&ns=a&name=b&reveal=1&b=5",
			"/object.yaml?r=secrets.v1&ns=a&name=b&rv=5", "/object.yaml?r=secrets.v1&ns=a&name=b&reveal=1",
		} {
			w := httptest.NewRecorder()
			d.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil))
			if strings.Contains(w.Body.String(), value) {
				t.Errorf("%s shows it: %s", path, main(w.Body.String()))
			}
		}
	})
}
