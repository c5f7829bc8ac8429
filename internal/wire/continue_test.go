package wire_test

import (
	"encoding/base64"
	"path"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/internal/wire"
)

func token(json string) string { return base64.RawURLEncoding.EncodeToString([]byte(json)) }

func TestContinueTokensLookLikeUpstreams(t *testing.T) {
	if got, want := wire.EncodeContinue(32,
		"ns/p1\x00"), token(`{"v":"meta.k8s.io/v1","rv":32,"start":"ns/p1\u0000"}`); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := wire.EncodeContinue(-1, "p1\x00"), token(`{"v":"meta.k8s.io/v1","rv":-1,"start":"p1\u0000"}`); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestContinueTokensAreReadInBothForms(t *testing.T) {
	for json, want := range map[string]struct {
		rv    int64
		start string
	}{
		`{"v":"meta.k8s.io/v1","rv":32,"start":"/p1\u0000"}`:   {32, "p1\x00"},
		`{"v":"meta.k8s.io/v1","rv":32,"start":"p1\u0000"}`:    {32, "p1\x00"},
		`{"v":"meta.k8s.io/v1","rv":-1,"start":"ns/p1\u0000"}`: {-1, "ns/p1\x00"},
	} {
		rv, start, err := wire.DecodeContinue(token(json))
		if err != nil || rv != want.rv || start != want.start {
			t.Errorf("%s: %d %q %v", json, rv, start, err)
		}
	}
}

func TestInvalidContinueTokensAreBadRequests(t *testing.T) {
	for raw, want := range map[string]string{
		"a":                        "illegal base64 data at input byte 0",
		"!!":                       "illegal base64 data at input byte 0",
		token(`{"v":"meta`) + "==": "illegal base64 data at input byte 14",
		token(`{"v"`):              "unexpected end of JSON input",
		token(`[]`):                "json: cannot unmarshal array into Go value of type wire.continueToken",
		token(`{"v":"meta.k8s.io/v1","rv":0,"start":"a"}`): "incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
		token(`{"v":"meta.k8s.io/v1","rv":5}`):             "encoded start key empty (version meta.k8s.io/v1)",
		token(`{"v":"meta.k8s.io/v2","rv":5,"start":"a"}`): "server does not recognize this encoded version meta.k8s.io/v2",
		token(`{}`): "server does not recognize this encoded version ",
		token(`{"v":"meta.k8s.io/v1","rv":5,"start":"../a"}`):        "../a",
		token(`{"v":"meta.k8s.io/v1","rv":5,"start":"/ns/../../a"}`): "/ns/../../a",
		token(`{"v":"meta.k8s.io/v1","rv":5,"start":"//a"}`):         "//a",
		token(`{"v":"meta.k8s.io/v1","rv":5,"start":"a/"}`):          "a/",
	} {
		_, _, err := wire.DecodeContinue(raw)
		if got := statusText(err); got != "400 BadRequest: invalid continue token: continue key is not valid: "+want {
			t.Errorf("%s: %s", raw, got)
		}
	}
}

func FuzzDecodeContinue(f *testing.F) {
	f.Add(wire.EncodeContinue(32, "ns/p1\x00"))
	f.Add(wire.EncodeContinue(-1, "/p1\x00"))
	f.Add(token(`{"v":"meta.k8s.io/v1","rv":5,"start":"../../x"}`))
	f.Add(token(`{"V":"meta.k8s.io/v1","rv":5e3,"start":["x"]}`))
	f.Add("%")
	f.Fuzz(func(t *testing.T, raw string) {
		rv, start, err := wire.DecodeContinue(raw)
		if err != nil {
			if wire.StatusOf(err).Code != 400 ||
				!strings.HasPrefix(err.Error(), "invalid continue token: continue key is not valid: ") {
				t.Fatalf("%v", err)
			}
			return
		}
		if rv == 0 || path.Clean("/"+start) != "/"+start {
			t.Fatalf("rv %d start %q", rv, start)
		}
		if start == "" {
			return // "/" is the start of the list
		}
		rv2, start2, err := wire.DecodeContinue(wire.EncodeContinue(rv, start))
		if err != nil || rv2 != rv || start2 != start {
			t.Fatalf("%d %q came back as %d %q, %v", rv, start, rv2, start2, err)
		}
	})
}
