package gotype

import (
	"strconv"
	"testing"
)

// TestPlainQuantitiesAreEncodedAsTheyAre compares all of them with the library.
func TestPlainQuantitiesAreEncodedAsTheyAre(t *testing.T) {
	for suffix, want := range map[string]int{
		"": 999, "m": 999, "k": 999, "M": 999, "G": 999, "Ki": 999, "Mi": 999, "Gi": 999,
		"n": 0, "T": 0, "e3": 0, ".5": 0, " ": 0, "i": 0,
	} {
		plain := 0
		for n := range 1000 {
			text := strconv.Itoa(n) + suffix
			if !plainQuantity(text) {
				continue
			}
			plain++
			if normal, empty, ok := quantity(text); normal != text || empty || !ok {
				t.Errorf("%q is encoded as %q (empty %t, ok %t)", text, normal, empty, ok)
			}
		}
		if plain != want {
			t.Errorf("with suffix %q %d are plain, want %d", suffix, plain, want)
		}
	}
	for _, text := range []string{"", "m", "-1", "+1", "01", "1000", "1.0", "1 "} {
		if plainQuantity(text) {
			t.Errorf("%q is plain", text)
		}
	}
}
