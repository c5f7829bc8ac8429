package apiserver_test

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gapless-io/gapless/internal/apiserver"
)

// TestHealthMatchesUpstream asks without a certificate, and with one, which
// gets the reasons.
func TestHealthMatchesUpstream(t *testing.T) {
	var broken atomic.Bool
	check := func() error {
		if broken.Load() {
			return errors.New("the disk is full\nand slow")
		}
		return nil
	}
	d := openServer(t, func(cfg *apiserver.Config) {
		cfg.Checks = []apiserver.Check{
			{Name: "etcd", Check: check},
			{Name: "informer-sync", Check: check, ReadyOnly: true},
			{Name: "start", Check: check, Boot: true},
		}
	})
	const whole = "[+]ping ok\n[+]etcd ok\n[+]informer-sync ok\n[+]start ok\n[+]shutdown ok\nreadyz check passed\n"
	const failed = "[+]ping ok\n[-]etcd failed: reason withheld\n[-]informer-sync failed: reason withheld\n" +
		"[-]start failed: reason withheld\n[+]shutdown ok\nreadyz check failed\n"
	const reason = "the disk is full; and slow"
	stranger := d.client(1)
	for _, c := range []struct {
		path   string
		broken bool
		code   int
		want   string
	}{
		{"/livez", false, 200, "ok"},
		{"/healthz", false, 200, "ok"},
		{"/readyz", false, 200, "ok"},
		{"/readyz/", false, 200, "ok"},
		{"/readyz?verbose", false, 200, whole},
		{"/readyz?verbose=1", false, 200, whole},
		{"/livez?verbose", false, 200, "[+]ping ok\n[+]etcd ok\nlivez check passed\n"},
		{"/healthz?verbose", false, 200, "[+]ping ok\n[+]etcd ok\n[+]start ok\nhealthz check passed\n"},
		{"/healthz", true, 500, "[+]ping ok\n[-]etcd failed: reason withheld\n[-]start failed: reason withheld\n" +
			"healthz check failed\n"},
		{"/healthz?exclude=etcd&exclude=start", true, 200, "ok"},
		{"/readyz", true, 500, failed},
		{"/readyz?exclude=etcd&exclude=informer-sync&exclude=start", true, 200, "ok"},
		{"/livez?exclude=etcd&verbose", true, 200, "[+]ping ok\n[+]etcd excluded: ok\nlivez check passed\n"},
		{"/livez/ping", true, 200, "ok"},
		{"/livez/etcd", false, 200, "ok"},
		{"/livez/etcd", true, 500, "[-]etcd failed: reason withheld\nlivez check failed\n"},
		{"/livez/start", false, 404, "404 page not found\n"},
		{"/livez/informer-sync", false, 404, "404 page not found\n"},
		{"/livez/etcd/more", false, 404, "404 page not found\n"},
	} {
		broken.Store(c.broken)
		for _, client := range []*http.Client{stranger, d.h2} { // without a certificate, and with
			a := d.by(client, "GET", c.path, "")
			want := c.want
			if client == d.h2 { // upstream withholds it here too
				want = strings.ReplaceAll(want, "reason withheld", reason)
			}
			if a.StatusCode != c.code || a.body != want || a.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
				t.Errorf("%s: %d %q %v, want %d %q", c.path, a.StatusCode, a.body, a.Header, c.code, want)
			}
			if client != d.h2 && strings.Contains(a.body, "disk") {
				t.Errorf("%s gives the reason to strangers", c.path)
			}
		}
	}
}

func TestReadyzFailsWhenTheServerDrainsAndLivezDoesNot(t *testing.T) {
	d := openServer(t, nil)
	d.api.Drain()
	if a := d.do("GET",
		"/readyz", ""); a.StatusCode != http.StatusInternalServerError || !strings.Contains(a.body, "[-]shutdown failed") {
		t.Errorf("readyz: %d %s", a.StatusCode, a.body)
	}
	if a := d.do("GET", "/livez", ""); a.StatusCode != http.StatusOK {
		t.Errorf("livez: %d %s", a.StatusCode, a.body)
	}
}

func TestVersionIsReadable(t *testing.T) {
	d := openServer(t, nil)
	v := tree(t, d.by(d.client(2), "GET", "/version?timeout=5s", "").body)
	if v["major"] != "1" || v["minor"] != "37" || v["gitVersion"] != "v1.37.2+gapless" {
		t.Errorf("%v", v)
	}
}

func TestMetricsHaveUpstreamNames(t *testing.T) {
	d := openServer(t, nil)
	d.create("a", "")
	d.do("GET", configMaps, "")
	d.do("GET", configMaps+"/b", "")
	s := d.open(d.h2, configMaps+"?watch=1")
	if got := s.say(); got != "ADDED a" {
		t.Fatal(got)
	}
	text := d.do("GET", "/metrics", "").body
	where := `component="apiserver",group="",resource="configmaps",scope=`
	for _, want := range []string{
		`apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="configmaps",scope="namespace",` +
			`subresource="",verb="LIST",version="v1"} 1`,
		`apiserver_request_total{code="201",component="apiserver",dry_run="",group="",resource="configmaps",scope="namespace",` +
			`subresource="",verb="POST",version="v1"} 1`,
		`apiserver_request_total{code="404",component="apiserver",dry_run="",group="",resource="configmaps",scope="resource",` +
			`subresource="",verb="GET",version="v1"} 1`,
		`apiserver_longrunning_requests{` + where + `"namespace",subresource="",verb="WATCH",version="v1"} 1`,
		`apiserver_watch_events_total{group="",resource="configmaps",version="v1"} 1`,
		`apiserver_watch_events_sizes_count{group="",resource="configmaps",version="v1"} 1`,
		`apiserver_request_duration_seconds_count{` + where + `"namespace",subresource="",verb="LIST",version="v1"} 1`,
		`apiserver_response_sizes_count{` + where + `"namespace",subresource="",verb="LIST",version="v1"} 1`,
		`apiserver_current_inflight_requests{request_kind="readOnly"} 1`,
		`apiserver_current_inflight_requests{request_kind="mutating"} 0`,
		"go_goroutines ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s", want)
		}
	}
}

// TestANoticeFailsOnlyWhereItIsAskedFor: /readyz names it.
func TestANoticeFailsOnlyWhereItIsAskedFor(t *testing.T) {
	d := openServer(t, func(cfg *apiserver.Config) {
		cfg.Checks = []apiserver.Check{{
			Name: "values", Check: func() error { return errors.New("one is damaged") }, ReadyOnly: true, Notice: true,
		}}
	})
	for path, want := range map[string]struct {
		code int
		text string
	}{
		"/readyz":         {200, "ok"},
		"/readyz?verbose": {200, "[-]values failed, which does not count: one is damaged\n"},
		"/readyz/values":  {500, "[-]values failed: one is damaged\n"},
		"/livez?verbose":  {200, "livez check passed"},
	} {
		a := d.do("GET", path, "")
		if a.StatusCode != want.code || !strings.Contains(a.body, want.text) {
			t.Errorf("%s: %d %q, want %d %q", path, a.StatusCode, a.body, want.code, want.text)
		}
	}
}
