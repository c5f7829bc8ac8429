package texts

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"
	"time"
)

func TestATextIsHeldFromItsSecondOccurrence(t *testing.T) {
	s, b := New(), []byte("who manages which fields")
	if s.Text(b) != nil {
		t.Error("a text is held that occurred once")
	}
	second := s.Text(b)
	b[0] = 'W'
	if second == nil || string(second.Bytes) != "who manages which fields" {
		t.Fatal("it is not held from the second time on, or not as a copy")
	}
	if s.Text(bytes.ToLower(b)) != second {
		t.Error("the same text is another one")
	}
	runtime.KeepAlive(second)
}

// What nobody refers to goes, and what occurs once is not held.
func TestTextsGoWithTheLastReference(t *testing.T) {
	s := New()
	for range 3 {
		for i := range 100 {
			s.Text(fmt.Append(nil, "often", i))
		}
	}
	for i := range 3 * onceSeen {
		s.Text(fmt.Append(nil, "once", i))
	}
	held := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.recent) > onceSeen || len(s.older) > onceSeen {
			t.Errorf("%d and %d hashes are held", len(s.recent), len(s.older))
		}
		return len(s.known)
	}
	for range 600 {
		if runtime.GC(); held() == 0 {
			return
		}
		<-time.After(50 * time.Millisecond)
	}
	t.Errorf("%d texts are held for nobody", held())
}

// Texts that occur in turn, however many, are all held after the second round.
func TestTextsThatOccurInTurnAreHeld(t *testing.T) {
	s := New()
	var kept []*Text
	for round := range 2 {
		for i := range onceSeen {
			if text := s.Text(fmt.Append(nil, i)); text != nil {
				kept = append(kept, text)
			} else if round > 0 {
				t.Fatalf("text %d is not held", i)
			}
		}
	}
	if len(kept) != onceSeen {
		t.Errorf("%d texts are held, want %d", len(kept), onceSeen)
	}
}
