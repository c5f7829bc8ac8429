package access

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-io/gapless/internal/wire"
)

// script is an upstream whose answers a test writes. It counts questions.
type script struct {
	asked int
	next  func(ctx context.Context) (answer[string], error)
}

func (s *script) ask(ctx context.Context) (answer[string], error) {
	s.asked++
	return s.next(ctx)
}

func (s *script) says(value string, fresh time.Duration) {
	s.next = func(context.Context) (answer[string], error) { return answer[string]{value: value, fresh: fresh}, nil }
}

func (s *script) fails(err error) {
	s.next = func(context.Context) (answer[string], error) { return answer[string]{}, err }
}

var errAway = errors.New("connection refused")

func newTestMemo(allowed, stale time.Duration) *memo[string] {
	return newMemo[string](3, Config{Allowed: allowed, Stale: stale}, func(source) {})
}

// expect gets an answer and compares it.
func expect(t *testing.T, m *memo[string], s *script, want string) {
	t.Helper()
	got, err := m.get(t.Context(), key{1}, s.ask)
	text := got.value
	if err != nil {
		text = err.Error()
	}
	if text != want {
		t.Errorf("the answer is %q, want %q", text, want)
	}
}

func TestAnAnswerIsUsedForItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := newTestMemo(10*time.Second, time.Minute), &script{}
		s.says("yes", 10*time.Second)
		expect(t, m, s, "yes")
		s.says("no", 5*time.Second)
		wait(10*time.Second - 1)
		expect(t, m, s, "yes")
		wait(1)
		expect(t, m, s, "no")
		s.says("yes", 10*time.Second)
		wait(5*time.Second - 1)
		expect(t, m, s, "no")
		wait(1)
		expect(t, m, s, "yes")
		if s.asked != 3 {
			t.Errorf("upstream was asked %d times", s.asked)
		}
	})
}

// TestAnAnswerCountsFromTheQuestion: upstream may have decided at any moment since then.
func TestAnAnswerCountsFromTheQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := newTestMemo(10*time.Second, time.Minute), &script{}
		s.next = func(context.Context) (answer[string], error) {
			wait(8 * time.Second)
			return answer[string]{value: "slow", fresh: 10 * time.Second}, nil
		}
		expect(t, m, s, "slow")
		s.says("new", time.Second)
		wait(2 * time.Second)
		expect(t, m, s, "new")
	})
}

func TestAFormerAnswerIsUsedWhileUpstreamIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := newTestMemo(10*time.Second, time.Minute), &script{}
		s.says("yes", 10*time.Second)
		expect(t, m, s, "yes")
		s.fails(errAway)
		wait(11 * time.Second)
		expect(t, m, s, "yes")
		expect(t, m, s, "yes") // without asking: upstream was away a moment ago
		if s.asked != 2 {
			t.Errorf("upstream was asked %d times", s.asked)
		}
		wait(49*time.Second - 1)
		expect(t, m, s, "yes")
		wait(1)
		expect(t, m, s, "connection refused") // a minute has passed since upstream said it
		s.says("no", time.Second)
		expect(t, m, s, "no")
	})
}

func TestARefusalToAnswerEndsTheFormerAnswer(t *testing.T) {
	m, s := newTestMemo(0, time.Hour), &script{}
	s.says("yes", 0)
	expect(t, m, s, "yes")
	s.fails(wire.BadRequest("the relay may not ask"))
	expect(t, m, s, "the relay may not ask")
	s.fails(errAway)
	expect(t, m, s, "connection refused")
}

func TestAnAnswerEndsWithItsToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := newTestMemo(10*time.Second, time.Hour), &script{}
		end := time.Now().Add(15 * time.Second)
		s.next = func(context.Context) (answer[string], error) {
			return answer[string]{value: "jane", fresh: 10 * time.Second, end: end}, nil
		}
		expect(t, m, s, "jane")
		s.fails(errAway)
		wait(14 * time.Second)
		expect(t, m, s, "jane")
		wait(time.Second)
		expect(t, m, s, "connection refused")
	})
}

func TestAnAnswerThatIsForgottenIsNotUsed(t *testing.T) {
	m, s := newTestMemo(0, time.Hour), &script{}
	s.says("jane", 0)
	expect(t, m, s, "jane")
	s.next = func(context.Context) (answer[string], error) {
		return answer[string]{value: "nobody", fresh: time.Hour, forget: true}, nil
	}
	expect(t, m, s, "nobody")
	s.fails(errAway)
	expect(t, m, s, "connection refused")
}

func TestThoseWhoWaitShareTheAnswerAndTheError(t *testing.T) {
	for _, fails := range []error{nil, errAway} {
		synctest.Test(t, func(t *testing.T) {
			m, s := newTestMemo(0, 0), &script{}
			s.next = func(context.Context) (answer[string], error) {
				wait(time.Second)
				return answer[string]{value: "yes"}, fails
			}
			var all sync.WaitGroup
			for range 20 {
				all.Go(func() {
					if got, err := m.get(t.Context(), key{1}, s.ask); !errors.Is(err, fails) || err == nil && got.value != "yes" {
						t.Errorf("%v, %v", got.value, err)
					}
				})
			}
			all.Wait()
			if s.asked != 1 {
				t.Errorf("upstream was asked %d times", s.asked)
			}
		})
	}
}

// yesLate answers after 5 s.
func yesLate(ctx context.Context) (answer[string], error) {
	select {
	case <-ctx.Done():
		return answer[string]{}, ctx.Err()
	case <-time.After(5 * time.Second):
		return answer[string]{value: "yes"}, nil
	}
}

// TestWhoLeavesDoesNotTakeTheAnswerFromOthers: the second one asks himself then.
func TestWhoLeavesDoesNotTakeTheAnswerFromOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := newTestMemo(0, 0), &script{}
		s.next = yesLate
		first, leave := context.WithCancelCause(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := m.get(first, key{1}, s.ask); err == nil || err.Error() != "left" {
				t.Errorf("who left gets %v", err)
			}
		})
		synctest.Wait()
		all.Go(func() { expect(t, m, s, "yes") })
		synctest.Wait()
		leave(errors.New("left"))
		all.Wait()
		if s.asked != 2 {
			t.Errorf("upstream was asked %d times", s.asked)
		}
	})
}

func TestAnUpstreamThatHangsDelaysAFormerAnswerByTwoSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := newTestMemo(10*time.Second, time.Minute), &script{}
		hang := func(ctx context.Context) (answer[string], error) {
			<-ctx.Done()
			return answer[string]{}, ctx.Err()
		}
		took := func(want time.Duration, value string) {
			t.Helper()
			began := time.Now()
			expect(t, m, s, value)
			if got := time.Since(began); got != want {
				t.Errorf("it took %s, want %s", got, want)
			}
		}
		s.next = hang
		took(AskWithin, "context deadline exceeded")
		s.says("yes", 0)
		expect(t, m, s, "yes")
		s.next = hang
		took(askAgainWithin, "yes")
		took(0, "yes")
	})
}

// TestADeadlineEndsAllQuestionsThatShareIt: none is asked after it, and former answers count.
func TestADeadlineEndsAllQuestionsThatShareIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := newTestMemo(10*time.Second, time.Hour), &script{}
		get := func(ctx context.Context, k byte) string {
			got, err := m.get(ctx, key{k}, s.ask)
			if err != nil {
				return err.Error()
			}
			return got.value
		}
		for k := range byte(2) {
			s.says("yes", 0)
			get(t.Context(), k)
		}
		s.next = func(ctx context.Context) (answer[string], error) {
			<-ctx.Done()
			return answer[string]{}, ctx.Err()
		}
		s.asked = 0
		ctx, end := context.WithTimeoutCause(t.Context(), askAgainWithin/2, errors.New("late"))
		defer end()
		for at, c := range []struct {
			k     byte
			want  string
			asked int
		}{{0, "yes", 1}, {2, "late", 1}, {1, "yes", 1}} {
			if got := get(ctx, c.k); got != c.want || s.asked != c.asked {
				t.Errorf("question %d: %q, and %d were asked; want %q, %d", at, got, s.asked, c.want, c.asked)
			}
		}
	})
}

// TestWhoHasMoreTimeAsksHimself: the deadline of one caller does not end the question of another who waits with him.
func TestWhoHasMoreTimeAsksHimself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := newTestMemo(0, 0), &script{}
		s.next = yesLate
		ctx, end := context.WithTimeoutCause(t.Context(), time.Second, errors.New("late"))
		defer end()
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := m.get(ctx, key{1}, s.ask); err == nil || err.Error() != "late" {
				t.Errorf("after his deadline he gets %v", err)
			}
		})
		synctest.Wait()
		expect(t, m, s, "yes")
		all.Wait()
		if s.asked != 2 {
			t.Errorf("upstream was asked %d times", s.asked)
		}
	})
}

func TestTheLongestUnusedAnswerIsDropped(t *testing.T) {
	m := newTestMemo(time.Hour, 0)
	asked := ""
	get := func(i byte) {
		_, err := m.get(t.Context(), key{i}, func(context.Context) (answer[string], error) {
			asked += fmt.Sprint(i)
			return answer[string]{fresh: time.Hour}, nil
		})
		if err != nil {
			t.Fatalf("get: %v", err)
		}
	}
	for _, i := range []byte{1, 2, 3, 1, 4, 1, 3, 2} { // three are kept
		get(i)
	}
	if asked != "12342" {
		t.Errorf("asked: %s", asked)
	}
	if len(m.found) != 3 || m.order.Len() != 3 || len(m.asking) != 0 {
		t.Errorf("kept: %d, %d, asking: %d", len(m.found), m.order.Len(), len(m.asking))
	}
}

func TestAPanicLetsOthersAsk(t *testing.T) {
	m, s := newTestMemo(0, 0), &script{}
	s.next = func(context.Context) (answer[string], error) { panic("a bug") }
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic is lost")
			}
		}()
		_, _ = m.get(t.Context(), key{1}, s.ask)
	}()
	s.says("yes", 0)
	expect(t, m, s, "yes")
}

// wait lets time pass, in a bubble of synctest.
func wait(d time.Duration) { <-time.After(d) }
