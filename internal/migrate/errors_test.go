package migrate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/etcd/members"
)

// TestOnlyErrorsThatPassSayThatTheCommandGoesOn: the others would be met again.
func TestOnlyErrorsThatPassSayThatTheCommandGoesOn(t *testing.T) {
	if err := goesOn(nil); err != nil {
		t.Errorf("no error is %v", err)
	}
	for err, passes := range map[error]bool{
		context.Canceled: true, errNoContact: true, ErrNotEmpty: false, errForeign: false, members.ErrOvertaken: false,
		&DifferenceError{}: false,
	} {
		got := goesOn(fmt.Errorf("x: %w", err))
		if !errors.Is(got, err) || strings.Contains(got.Error(), "goes on") != passes {
			t.Errorf("%v becomes %v; does it pass: %t", err, got, passes)
		}
	}
}

func TestProblemsAreCountedAndTheFirstAreNamed(t *testing.T) {
	var bad problems
	if err := bad.unmovable(0); err != nil {
		t.Errorf("no problems are %v", err)
	}
	for i := range 250 {
		bad.add(&object{key: fmt.Sprintf("configmaps/x/%03d", i), err: errors.New("is bad")})
	}
	for begun, want := range map[int64][]string{
		0: {"250 objects", "and nothing was written:", "configmaps/x/099: is bad", "and 150 more"},
		7: {"250 objects", "nothing was written now; 7 others are in etcd"},
	} {
		text := bad.unmovable(begun).Error()
		for _, part := range want {
			if !strings.Contains(text, part) {
				t.Errorf("%q is not in:\n%s", part, text)
			}
		}
		if strings.Contains(text, "configmaps/x/100") {
			t.Errorf("more than 100 are named:\n%s", text)
		}
	}
}

// TestAServiceThatDoesNotAnswerIsNoProblemOfAnObject: a key management service, or etcd.
func TestAServiceThatDoesNotAnswerIsNoProblemOfAnObject(t *testing.T) {
	away := errors.New("away")
	for name, c := range map[string]struct {
		err   error
		fails bool
	}{
		"none":               {nil, false},
		"a damaged object":   {&store.UnreadableError{Key: "k"}, false},
		"no key service":     {&store.UnreadableError{Key: "k", Temporary: true, Cause: away}, true},
		"none for a write":   {&store.UnavailableError{Cause: away}, true},
		"etcd does not know": {failure{away}, true},
	} {
		page := []object{{key: "configmaps/x/a"}, {key: "configmaps/x/b", err: c.err}}
		if err := failed(page); errors.Is(err, away) != c.fails || !c.fails && err != nil {
			t.Errorf("%s: %v, does the run fail: %t", name, err, c.fails)
		}
	}
}
