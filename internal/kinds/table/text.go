package printers

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	resources "github.com/gapless-io/gapless/internal/kinds"
)

func ageOf(t *metav1.Time) any {
	if t == nil {
		return "<none>"
	}
	return resources.Age(t.Time)
}

// orNone returns s, or "<none>" for an empty one.
func orNone(s string) string { return or(s, "<none>") }

func or(s, empty string) string {
	if s == "" {
		return empty
	}
	return s
}

func deref[T any](p *T) T {
	var zero T
	if p == nil {
		return zero
	}
	return *p
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// text returns the value behind p as text, or def when there is none.
func text[T any](p *T, def string) string {
	if p == nil {
		return def
	}
	return fmt.Sprint(*p)
}

// joinFirst joins at most n of the words, and appends how many more there are.
func joinFirst(words []string, n int, separator string) string {
	if len(words) <= n {
		return strings.Join(words, separator)
	}
	return fmt.Sprintf("%s + %d more...", strings.Join(words[:n], separator), len(words)-n)
}

// word returns a condition as kubectl words it.
func word(b bool) string {
	if b {
		return "True"
	}
	return "False"
}
