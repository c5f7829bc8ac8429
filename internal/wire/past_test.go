package wire_test

import (
	"net/url"
	"testing"

	"github.com/gapless-io/gapless/internal/wire"
)

// FuzzChangesOptions: a query is refused or makes options that hold what their docs say, and tokens come back as they were.
func FuzzChangesOptions(f *testing.F) {
	f.Add("changes=NewestFirst&limit=3&since=2026-11-25T14:00:00Z&upTo=7")
	f.Add("changes=OldestFirst&continue=" + wire.ChangesToken{After: 1, UpTo: 2}.Made().Encode())
	f.Fuzz(func(t *testing.T, query string) {
		q, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		o, err := wire.ParseChangesOptions(q)
		if err != nil {
			return
		}
		if o.Limit < 1 || o.Token.After > o.Token.UpTo || o.Token.After < 0 {
			t.Errorf("options of %q: %+v", query, o)
		}
		if o.Token.IsZero() {
			return
		}
		again, err := wire.ParseChangesOptions(url.Values{"changes": q["changes"], "continue": {o.Token.Encode()}})
		if err != nil || again.Token != o.Token {
			t.Errorf("the token %+v comes back as %+v: %v", o.Token, again.Token, err)
		}
	})
}
