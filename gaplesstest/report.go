package gaplesstest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gapless-io/gapless"
)

// report logs what the server saw, if the test has failed.
func (s *Server) report(t testing.TB) {
	t.Helper()
	if !t.Failed() {
		return
	}
	var b strings.Builder
	open := s.Watches()
	fmt.Fprintf(&b, "%d watches are open:\n", len(open))
	for _, w := range open {
		b.WriteString("\t" + describe(w) + "\n")
	}
	if rules := s.faults.Rules(); len(rules) > 0 {
		fmt.Fprintf(&b, "%d faults are in force:\n", len(rules))
		for _, f := range rules {
			fmt.Fprintf(&b, "\t%s: %d requests fit, applied to %d%s\n", f.Rule.Name, f.Matched, f.Acted, problem(f.Problem))
		}
	}
	text, dropped := s.log.text()
	b.WriteString("the server's log")
	if dropped > 0 {
		fmt.Fprintf(&b, " (%d lines before were dropped)", dropped)
	}
	t.Logf("gaplesstest: %s:\n%s", b.String(), text)
}

// describe says which watch is where.
func describe(w gapless.Watch) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s", w.Resource)
	if w.Namespace != "" {
		fmt.Fprintf(&b, " in %s", w.Namespace)
	}
	for name, selector := range map[string]string{"labels": w.LabelSelector, "fields": w.FieldSelector} {
		if selector != "" {
			fmt.Fprintf(&b, ", %s %q", name, selector)
		}
	}
	fmt.Fprintf(&b, ": by %s (%s), for %v, from %d", w.User, w.UserAgent, time.Since(w.Since).Round(time.Millisecond), w.From)
	fmt.Fprintf(&b, ", %d events delivered up to %d", w.Delivered, w.Known)
	if w.Behind > 0 {
		fmt.Fprintf(&b, ", %d revisions behind", w.Behind)
	}
	return b.String()
}

func problem(text string) string {
	if text == "" {
		return ""
	}
	return "; the last time it failed: " + text
}
