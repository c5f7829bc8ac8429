package decode

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"reflect"
	"sync/atomic"
	"testing"
	"time"
)

// Remembered is how many bytes of texts, and of what holds them, d remembers.
func (d *Decoder[T]) Remembered() int {
	now := d.memory.now.Load()
	return now.young.text + now.old.text
}

// Forgetting is after how many bytes of input what does not come again is forgotten.
const Forgetting = 2 * youngRead

// MostRemembered bounds Remembered.
const MostRemembered = 2 * (youngText + maxText + entryCost)

func TestTheTrieFindsExactlyItsKeys(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // reproducible from the seed
	var root atomic.Pointer[branches]
	known := map[string]*leaf{}
	text := func() string {
		b := []byte("[")
		for range r.IntN(4) {
			b = fmt.Appendf(b, "%d,", r.IntN(120))
		}
		return string(append(b, `7]`...))
	}
	for range 20_000 {
		one := text()
		found := root.Load().find([]byte(one + `,"behind"]`))
		if found != known[one] {
			t.Fatalf("seed %d: %s: found %v, it is %v", seed, one, found, known[one])
		}
		if root.Load().find([]byte(one[:len(one)-1])) != nil {
			t.Fatalf("seed %d: the beginning of %s is found", seed, one)
		}
		if r.IntN(2) > 0 {
			l := &leaf{text: one}
			if inserted := insert(&root, l); inserted != (found == nil) {
				t.Fatalf("seed %d: %s: inserted: %t", seed, one, inserted)
			}
			if found == nil {
				known[one] = l
			}
		}
	}
	if len(known) < 3000 || root.Load().find(nil) != nil || insert(&root, &leaf{text: "["}) {
		t.Errorf("%d texts, or nothing was found", len(known))
	}
}

// TestTimesAreParsedAsInTheStandardLibrary: what is read by hand is what it makes, and
// what it refuses is not read.
func TestTimesAreParsedAsInTheStandardLibrary(t *testing.T) {
	check := func(text string) (usual bool) {
		got, usual := seconds([]byte(text))
		want, err := time.Parse(time.RFC3339, text)
		if usual && (err != nil || !reflect.DeepEqual(got, want.Local())) {
			t.Errorf("%s: %v, want %v, %v", text, got, want.Local(), err)
		}
		return usual
	}
	day := time.Date(1970, 1, 1, 23, 59, 58, 0, time.UTC)
	for n := 0; day.Year() < 2110; n++ {
		leap := day.Month() == time.February && day.Day() == 29
		if usual := check(day.Format(time.RFC3339)); usual == leap {
			t.Errorf("%v: by hand: %t", day, usual)
		}
		day = day.Add(24*time.Hour - time.Duration(n%100)*time.Second)
	}
	for _, text := range []string{
		"", "2026-01-02T03:04:05", "2026-01-02T03:04:05+01:00", "2026-01-02T03:04:05.5Z", "2026-13-02T03:04:05Z",
		"2026-00-02T03:04:05Z",
		"2026-02-30T03:04:05Z", "2026-04-31T03:04:05Z", "2026-01-00T03:04:05Z", "2026-01-02T24:04:05Z", "2026-01-02T03:60:05Z",
		"2026-01-02T03:04:60Z",
		"1969-12-31T23:59:59Z", "2026-01-02 03:04:05Z", "2026-01-02T03:04:05z", "20x6-01-02T03:04:05Z",
	} {
		if check(text) {
			t.Errorf("%q is read by hand", text)
		}
	}
	if !check("9999-12-31T23:59:59Z") {
		t.Error("the last year is not read by hand")
	}
}

// TestTextsOfOneBucketDoNotDisplaceOneAnother alternates between texts whose hashes have
// one bucket, as objects do that have them all: each is found within a few rounds.
func TestTextsOfOneBucketDoNotDisplaceOneAnother(t *testing.T) {
	m := newMemory(1)
	s := &site{}
	at := func(text []byte) uint64 { return maphash.Bytes(m.seed, text) % uint64(len(m.once)) }
	texts := [][]byte{[]byte("the first one")}
	for i := 0; len(texts) < bucket; i++ {
		if next := fmt.Appendf(nil, "text %d", i); at(next) == at(texts[0]) {
			texts = append(texts, next)
		}
	}
	for _, text := range texts {
		rounds := 0
		for ; !m.again(s, text) && rounds < 1000; rounds++ {
			for _, other := range texts {
				if !bytes.Equal(other, text) {
					m.again(s, other)
				}
			}
		}
		if rounds == 1000 {
			t.Errorf("%q is never known", text)
		}
	}
}
