package dashboard

import "testing"

// FuzzPlaces reads places: what is read is written as it is read again.
func FuzzPlaces(f *testing.F) {
	f.Add(place{ID: "pods.v1"}.encode())
	f.Add(place{ID: "pods.v1", Key: "a/b", Lists: true, Old: "x", New: "y", OldEnded: true}.encode())
	f.Add("eyJyIjoxfQ")
	f.Add("%")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parsePlace(text)
		if err != nil {
			if p != (place{}) {
				t.Errorf("%q: an error, and %v", text, p)
			}
			return
		}
		if again, err := parsePlace(p.encode()); err == nil && again != p {
			t.Errorf("%q: %v, and then %v", text, p, again)
		}
	})
}

// TestAPlaceNamesAResource: without one the first page would be shown again, as if it was the next one.
func TestAPlaceNamesAResource(t *testing.T) {
	for _, text := range []string{"e30", "eyJrIjoiYSJ9", "bnVsbA", "x"} { // no resource
		if p, err := parsePlace(text); err == nil {
			t.Errorf("%q: %v", text, p)
		}
	}
}
