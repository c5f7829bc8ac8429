package registry

import "crypto/rand"

// How names are generated: apiserver pkg/storage/names, apimachinery util/rand.
const (
	generatedBase   = 58
	generatedSuffix = 5
	nameLetters     = "bcdfghjklmnpqrstvwxz2456789"
)

// generatedName returns a name of a base, the generateName of an object, and five random letters.
func generatedName(base string) string {
	if len(base) > generatedBase {
		base = base[:generatedBase]
	}
	suffix := make([]byte, 0, generatedSuffix)
	// The largest multiple of the number of letters that a byte can be below.
	const fair = 256 / len(nameLetters) * len(nameLetters)
	var random [16]byte
	for len(suffix) < generatedSuffix {
		_, _ = rand.Read(random[:]) // never fails (crypto/rand)
		for _, b := range random {
			if int(b) < fair && len(suffix) < generatedSuffix {
				suffix = append(suffix, nameLetters[int(b)%len(nameLetters)])
			}
		}
	}
	return base + string(suffix)
}
