package gaplesstest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gapless-io/gapless"
)

// The lines of a report: of watches, of faults, and of all.
const (
	maxWatches = 15
	maxFaults  = 10
	maxReport  = 60
)

// report logs what the server saw, if the test has failed: in at most maxReport lines, the last
// requests first.
func (s *Server) report(t testing.TB) {
	t.Helper()
	if !t.Failed() {
		return
	}
	var lines []string
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	open := s.Watches()
	say("%d watches are open:", len(open))
	for n, w := range open {
		if n == maxWatches {
			say("\tand %d more", len(open)-n)
			break
		}
		say("\t%s", describe(w))
	}
	if rules := s.faults.Rules(); len(rules) > 0 {
		say("%d faults are in force:", len(rules))
		for n, f := range rules {
			if n == maxFaults {
				say("\tand %d more", len(rules)-n)
				break
			}
			say("\t%s: %d requests fit, applied to %d%s", f.Rule.Name, f.Matched, f.Acted, problem(f.Problem))
		}
	}
	say("the server's log, the last line first:")
	all, others := s.log.newest(maxReport - len(lines) - 2) // the first line, and that there are others
	for _, f := range all {
		if f.times > 1 {
			say("\t%s (the last of %d times)", f.last, f.times)
		} else {
			say("\t%s", f.last)
		}
	}
	if others > 0 {
		say("\tand %d lines before", others)
	}
	t.Logf("gaplesstest: %s", strings.Join(lines, "\n"))
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
