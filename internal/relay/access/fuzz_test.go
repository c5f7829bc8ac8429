package access

import (
	"encoding/base64"
	"testing"
	"time"
)

func tokenWith(claims string) string {
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
}

func TestATokenThatSaysWhenItEndsIsRead(t *testing.T) {
	for token, want := range map[string]time.Time{
		tokenWith(`{"exp":1700000000}`):     time.Unix(1700000000, 0),
		tokenWith(`{"exp":1700000000.5}`):   time.Unix(1700000000, 0),
		tokenWith(`{"exp":1.7e9}`):          time.Unix(1700000000, 0),
		tokenWith(`{"exp":"1700000000"}`):   {},
		tokenWith(`{"exp":-1}`):             {},
		tokenWith(`{"exp":1e300}`):          {},
		tokenWith(`{"exp":1700000000`):      {},
		tokenWith(`{}`):                     {},
		tokenWith(`{"exp":1700000000}`)[1:]: time.Unix(1700000000, 0), // the header is not looked at
		"a.b":                               {},
		"a.!.c":                             {},
		"token-jane":                        {},
		"":                                  {},
	} {
		if got := expiry(token); !got.Equal(want) {
			t.Errorf("%s ends %s, want %s", token, got, want)
		}
	}
}

// FuzzExpiry: what a token says of itself is a time that can be compared, or none.
func FuzzExpiry(f *testing.F) {
	for _, seed := range []string{tokenWith(`{"exp":1700000000}`), tokenWith(`{"exp":1e400}`), "a.b.c", "..", tokenWith(`[]`)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, token string) {
		got := expiry(token)
		if !got.IsZero() && (got.Unix() < 0 || got.Unix() > 1<<40) {
			t.Errorf("%q ends %s", token, got)
		}
	})
}
