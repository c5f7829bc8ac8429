package table

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/kinds"
)

// AgeOf is the cell with the time since then; "<none>" for no time.
func AgeOf(t *metav1.Time) any {
	if t == nil {
		return "<none>"
	}
	return kinds.Age(t.Time)
}

// OrNone returns s, or "<none>" for an empty one.
func OrNone(s string) string { return Or(s, "<none>") }

// Or returns s, or another text for an empty one.
func Or(s, empty string) string {
	if s == "" {
		return empty
	}
	return s
}

// Deref returns the value behind p, or the zero value when there is none.
func Deref[T any](p *T) T {
	var zero T
	if p == nil {
		return zero
	}
	return *p
}

// Stamp returns a moment as text.
func Stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Text returns the value behind p as text, or def when there is none.
func Text[T any](p *T, def string) string {
	if p == nil {
		return def
	}
	return fmt.Sprint(*p)
}

// JoinFirst joins at most n of the words, and appends how many more there are.
func JoinFirst(words []string, n int, separator string) string {
	if len(words) <= n {
		return strings.Join(words, separator)
	}
	return fmt.Sprintf("%s + %d more...", strings.Join(words[:n], separator), len(words)-n)
}

// Word returns a condition as kubectl words it.
func Word(b bool) string {
	if b {
		return "True"
	}
	return "False"
}

// ShownAddresses is how many addresses, hosts and ports a cell lists.
const ShownAddresses = 3

// Distinct returns the words that are not empty, each once and in order. It changes words.
func Distinct(words []string) []string {
	words = slices.DeleteFunc(words, func(s string) bool { return s == "" })
	slices.Sort(words)
	return slices.Compact(words)
}
