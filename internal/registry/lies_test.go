package registry_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// uidOf is the uid of a review.
func uidOf(body []byte) string {
	var in review
	if json.Unmarshal(body, &in) != nil || in.Request == nil {
		return ""
	}
	return in.Request.UID
}

// TestNothingIsBelievedOfAnAnswer has a webhook that lies, with upstream's texts.
func TestNothingIsBelievedOfAnAnswer(t *testing.T) {
	s, h := serveBars(t)
	s.create(s.at(bars, "default"), bar("v1", "a", `{"n":1}`))
	changed := func(change func(r *review)) func(http.ResponseWriter, *http.Request, []byte) {
		return func(w http.ResponseWriter, _ *http.Request, body []byte) {
			out := h.converted(body)
			change(out)
			_ = json.NewEncoder(w).Encode(out) // the caller may have left
		}
	}
	text := func(code int, contentType, body string) func(http.ResponseWriter, *http.Request, []byte) {
		return func(w http.ResponseWriter, _ *http.Request, _ []byte) {
			w.Header().Set("Content-Type", contentType)
			w.WriteHeader(code)
			_, _ = fmt.Fprint(w, body) // the caller may have left
		}
	}
	object := func(change func(o map[string]any)) func(http.ResponseWriter, *http.Request, []byte) {
		return changed(func(r *review) { change(r.Response.Converted[0]) })
	}
	metadata := func(key string, value any) func(http.ResponseWriter, *http.Request, []byte) {
		return object(func(o map[string]any) { o["metadata"].(map[string]any)[key] = value })
	}
	const of = "conversion webhook for t.example.com/v1, Kind=Bar "
	for _, tt := range []struct {
		name   string
		answer func(http.ResponseWriter, *http.Request, []byte)
		want   string
	}{
		{"uid", changed(func(r *review) { r.Response.UID = "x" }), of + `failed: expected response.uid=`},
		{
			"kind of the review", changed(func(r *review) { r.Kind = "AdmissionReview" }),
			of +
				`failed: expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got ` +
				`apiextensions.k8s.io/v1, Kind=AdmissionReview`,
		},
		{"no response", changed(func(r *review) { r.Response = nil }), of + `failed: no response provided`},
		{
			"no status", changed(func(r *review) { r.Response.Result = nil }),
			of + `failed: response.result.status was '', not 'Success'`,
		},
		{"none", changed(func(r *review) { r.Response.Converted = nil }), of + `returned 0 objects, expected 1`},
		{
			"too many", changed(func(r *review) { r.Response.Converted = append(r.Response.Converted, r.Response.Converted[0]) }),
			of + `returned 2 objects, expected 1`,
		},
		{
			"version", object(func(o map[string]any) { o["apiVersion"] = "t.example.com/v1" }),
			of + `returned invalid object: invalid groupVersion (expected t.example.com/v2, received t.example.com/v1)`,
		},
		{"kind", object(func(o map[string]any) { o["kind"] = "Foo" }), `invalid kind (expected Bar, received Foo)`},
		{"name", metadata("name", "z"), of + `returned invalid object: must have the same name: a != z`},
		{"namespace", metadata("namespace", "z"), `must have the same namespace: default != z`},
		{"UID", metadata("uid", "z"), `must have the same UID: `},
		{"no metadata", object(func(o map[string]any) { delete(o, "metadata") }), `must have the same name: a != `},
		{"labels", metadata("labels", map[string]any{"a b": "c"}), `metadata.labels: Invalid value: "a b"`},
		{"labels of another type", metadata("labels", "x"), `invalid metadata.labels of type string in converted object`},
		{
			"annotations", metadata("annotations", map[string]any{"a": 1}),
			`metadata.annotations[a] must be a string, but is int64 in converted object`,
		},
		{"null", changed(func(r *review) { r.Response.Converted[0] = nil }), of + `returned invalid object: `},
		{
			"garbage", text(200, "application/json", "{"+strings.Repeat("x", 3<<20)),
			of + `failed: couldn't get version/kind; json parse error: `,
		},
		{
			"nothing", text(200, "application/json", ""),
			of + `failed: 0-length response with status code: 200 and content type: application/json`,
		},
		{"too large", text(200, "application/json", strings.Repeat(" ", 17<<20)), `the answer has more than 16777216 bytes`},
		{
			"a large object", object(func(o map[string]any) { o["spec"].(map[string]any)["a"] = strings.Repeat("x", 5<<20) }),
			`the limit is 4194304`,
		},
		{"deep", text(200, "application/json", strings.Repeat(`{"a":`, 20000)), of},
		{"404", text(404, "text/plain", "no such page"), of + `failed: the server could not find the requested resource`},
		{
			"500", text(500, "text/plain", "boom"),
			of + `failed: an error on the server ("boom") has prevented the request from succeeding`,
		},
		{
			"a Status",
			text(403, "application/json",
				`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"go away","code":403}`), of + `failed: go away`,
		},
		{"retries", func(w http.ResponseWriter, _ *http.Request, _ []byte) {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusTooManyRequests)
		}, of + `failed: the server has received too many requests and has asked us to try again later`},
		{"a redirect in circles", func(w http.ResponseWriter, r *http.Request, _ []byte) {
			http.Redirect(w, r, "/convert", http.StatusTemporaryRedirect)
		}, `stopped after 10 redirects`},
		{
			"hangs up", func(http.ResponseWriter, *http.Request, []byte) { panic(http.ErrAbortHandler) },
			`/convert?timeout=30s": EOF`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h.instead(tt.answer)
			_, err := s.Get(t.Context(), s.at(barsV2, "default", "a"), "")
			got := status(err)
			if !strings.HasPrefix(got, "500  ") || !strings.Contains(got, tt.want) || len(got) > 4096 {
				t.Errorf("got  %.1000s\nwant %s", got, tt.want)
			}
			if _, err := s.List(t.Context(), s.at(barsV2), options(nil)); err == nil {
				t.Error("the list was answered")
			}
		})
	}
	h.instead(func(w http.ResponseWriter, r *http.Request, body []byte) {
		if r.URL.Path == "/convert" {
			http.Redirect(w, r, "/moved", http.StatusPermanentRedirect)
			return
		}
		h.convert(w, body)
	})
	shows(t, s.get(s.at(barsV2, "default", "a")), `t.example.com/v2 {"count":"1"}`)
	h.instead(object(func(o map[string]any) {
		o["metadata"] = map[string]any{
			"name": "a", "namespace": "default", "uid": o["metadata"].(map[string]any)["uid"], "finalizers": []any{"x/y"},
			"generation": 77,
		}
		o["spec"].(map[string]any)["unknown"] = "pruned"
	}))
	s.merge(s.at(bars, "default", "a"), `{"spec":{"n":2}}`)
	o := s.get(s.at(barsV2, "default", "a"))
	if o.Finalizers() != nil || o.Generation() != 2 {
		t.Errorf("the webhook has changed metadata: %s", o.JSON())
	}
	shows(t, o, `t.example.com/v2 {"count":"2"}`)
}
