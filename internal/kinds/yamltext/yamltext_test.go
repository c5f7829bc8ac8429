package yamltext_test

import (
	"errors"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/gapless-io/gapless/internal/kinds/yamltext"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDocumentsBecomeJSON(t *testing.T) {
	for document, want := range map[string]string{
		"a: 1\nb: [x, 1.5, null, true]": `{"a":1,"b":["x",1.5,null,true]}`,
		"# nothing":                     `null`,
		"a: &x {b: c}\nd: *x":           `{"a":{"b":"c"},"d":{"b":"c"}}`,
		`{"a": "\u00e9"}`:               `{"a":"é"}`,
	} {
		got, err := yamltext.ToJSON([]byte(document), 1000)
		if err != nil || string(got) != want {
			t.Errorf("%q: got %s, %v, want %s", document, got, err, want)
		}
	}
}

func TestDuplicateKeysAreRefused(t *testing.T) {
	for _, document := range []string{"a: 1\na: 2", "x: &y z\na: *y\na: 2"} {
		if got, err := yamltext.ToJSON([]byte(document), 1000); err == nil || !strings.Contains(err.Error(), `"a" already set`) {
			t.Errorf("%q: got %s, %v", document, got, err)
		}
	}
}

// TestAliasesCannotMakeMoreThanTheLimit: the document has 2 000 bytes, its JSON would have
// 100 000.
func TestAliasesCannotMakeMoreThanTheLimit(t *testing.T) {
	document := "a: &x " + strings.Repeat("y", 1000) + "\nb: [" + strings.Repeat("*x,", 100) + "]"
	_, err := yamltext.ToJSON([]byte(document), 50_000)
	if size, is := errors.AsType[*yamltext.SizeError](err); !is || size.Limit != 50_000 {
		t.Errorf("got %v, want a SizeError", err)
	}
	if _, err := yamltext.ToJSON([]byte(document), 200_000); err != nil {
		t.Errorf("below the limit: %v", err)
	}
	if _, err := yamltext.ToJSON([]byte("a: "+strings.Repeat("y", 1000)), 500); err == nil {
		t.Error("a document above the limit without aliases is accepted")
	}
}
