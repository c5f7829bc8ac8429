package wire_test

import (
	"cmp"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

func TestFramesAreOneLine(t *testing.T) {
	o := newObject(t, "{\"apiVersion\":\"v1\",\n\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"x\"}}\n", 5)
	const object = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"resourceVersion":"5","name":"x"}}`
	for name, tt := range map[string]struct {
		got  []byte
		want string
	}{
		"added":    {line(kube.Added, o), `{"type":"ADDED","object":` + object + `}`},
		"modified": {line(kube.Modified, o), `{"type":"MODIFIED","object":` + object + `}`},
		"deleted":  {line(kube.Deleted, o), `{"type":"DELETED","object":` + object + `}`},
		"bookmark": {
			wire.BookmarkFrame("apps/v1", "Deployment", 1000000040, kube.Bookmark),
			`{"type":"BOOKMARK","object":{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"resourceVersion":"1000000040"}}}`,
		},
		"end of the initial events": {
			wire.BookmarkFrame("v1", "Pod", 7, kube.InitialEventsEnd),
			`{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"7","annotations":{"k8s.io/initial-events-end":"true"}}}}`,
		},
		"end of a delta": {
			wire.DeltaEndFrame("v1", "Pod", 7, 5),
			`{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"7","annotations":{"k8s.io/initial-events-end":"true","gapless.io/delta-since":"5"}}}}`,
		},
		"error": {
			wire.ErrorFrame(wire.StatusOf(wire.BadRequest("no"))),
			`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"no","reason":"BadRequest","code":400}}`,
		},
	} {
		if diff := gocmp.Diff(tt.want+"\n", string(tt.got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func line(t kube.EventType, o *wire.Object) []byte {
	return []byte(wire.FrameHead(t) + string(o.JSON()) + wire.FrameTail)
}

func TestResourceVersionsAreDecimalNumbers(t *testing.T) {
	for text, want := range map[string]kube.ResourceVersion{"": 0, "0": 0, "1": 1, "18446744073709551615": 18446744073709551615} {
		if rv, err := kube.ParseResourceVersion(text); err != nil || rv != want {
			t.Errorf("%q: %d, %v", text, rv, err)
		}
	}
	for _, text := range []string{"-1", "+1", "1 ", "0x1", "1_0", "18446744073709551616", "١"} {
		if rv, err := kube.ParseResourceVersion(text); err == nil {
			t.Errorf("%q was read as %d", text, rv)
		}
	}
	if got := kube.ResourceVersion(1000000000).String(); got != "1000000000" {
		t.Errorf("String() = %s", got)
	}
}

func TestResourceVersionsAreComparedAsNumbersOfAnyLength(t *testing.T) {
	ordered := []string{
		"1", "2", "10", "99", "100", "18446744073709551615", "18446744073709551616", "100000000000000000000000000",
	}
	for i, a := range ordered {
		for j, b := range ordered {
			if got, err := kube.CompareResourceVersion(a, b); err != nil || got != cmp.Compare(i, j) {
				t.Errorf("compare %s with %s: %d, %v", a, b, got, err)
			}
		}
	}
	for _, bad := range []string{"", "0", "01", "-1", "+1", "1 ", "0x1", "1_0", "a", "١"} {
		if _, err := kube.CompareResourceVersion(bad, "1"); err == nil {
			t.Errorf("%q was compared", bad)
		}
		if _, err := kube.CompareResourceVersion("1", bad); err == nil {
			t.Errorf("%q was compared with", bad)
		}
	}
}
