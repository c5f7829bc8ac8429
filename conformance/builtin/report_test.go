package builtin_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/conformance/builtin"
)

// report collects what was found.
type report struct {
	// mu guards the following.
	mu       sync.Mutex
	objects  map[string]int // by kind, as agree
	agree    map[string]int
	examples map[builtin.Finding]string
}

func newReport() *report {
	return &report{objects: map[string]int{}, agree: map[string]int{}, examples: map[builtin.Finding]string{}}
}

// judge compares the verdicts on one case.
func (r *report) judge(t *testing.T, of builtin.Finding, c builtin.Case, upstream, gapless builtin.Verdict) {
	t.Helper()
	if upstream.Err != nil || gapless.Err != nil {
		t.Errorf("%s %s, %s: upstream: %v, gapless: %v", of.Write, of.Kind, c.What, upstream.Err, gapless.Err)
		return
	}
	if gapless.Status != nil && gapless.Status.Reason == metav1.StatusReasonConflict {
		t.Errorf("%s %s, %s: the object has changed meanwhile: %s", of.Write, of.Kind, c.What, gapless.Status.Message)
	}
	found := builtin.Compare(of, upstream, gapless)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.objects[of.Kind]++
	if len(found) == 0 {
		r.agree[of.Kind]++
	}
	for _, f := range found {
		if _, has := r.examples[f]; !has {
			r.examples[f] = fmt.Sprintf("%s\n  upstream: %s\n  gapless:  %s",
				c.What, said(upstream, f.Field), said(gapless, f.Field))
		}
	}
}

// said is a verdict for people: of an object, what it has at a field.
func said(v builtin.Verdict, field string) string {
	const most = 400
	text := fmt.Sprintf("accepted, warnings: %q", v.Warnings)
	if v.Status != nil {
		text = v.Status.Message
	} else if field != "" {
		text = fmt.Sprintf("accepted, %s is %v", field, at(v.Object, strings.Split(field, ".")))
	}
	if len(text) > most {
		text = text[:most] + "…"
	}
	return text
}

// at returns what is at a path; nil if nothing is. Of a list it is the first that any
// item has.
func at(from any, path []string) any {
	if list, is := from.([]any); is && len(path) > 0 {
		for _, item := range list {
			if value := at(item, path); value != nil {
				return value
			}
		}
		return nil
	}
	object, is := from.(map[string]any)
	if len(path) == 0 {
		return from
	}
	for n := len(path); is && n > 0; n-- { // keys have dots, too
		if value, has := object[strings.TrimSuffix(strings.Join(path[:n], "."), "[*]")]; has {
			return at(value, path[n:])
		}
	}
	return nil
}

// found are all findings.
func (r *report) found() map[builtin.Finding]bool {
	all := map[builtin.Finding]bool{}
	for f := range r.examples {
		all[f] = true
	}
	return all
}

// figures is a table in Markdown: what was played, and what was found, by kind.
func (r *report) figures(known builtin.Table) string {
	classes := []builtin.Class{builtin.Stricter, builtin.Different, builtin.Warnings, builtin.Looser, builtin.Causes}
	var b strings.Builder
	b.WriteString(
		"| kind | writes | agree | stricter | different | warnings | looser | other causes | of these stay " +
			"|\n|---|---|---|---|---|---|---|---|---|\n")
	var total [8]int
	for _, kind := range slices.Sorted(maps.Keys(r.objects)) {
		row := [8]int{r.objects[kind], r.agree[kind]}
		for f := range r.examples {
			if f.Kind != kind {
				continue
			}
			row[2+slices.Index(classes, f.Class)]++
			if known.Stays(f) {
				row[7]++
			}
		}
		writeRow(&b, kind, row)
		for i, n := range row {
			total[i] += n
		}
	}
	writeRow(&b, "all", total)
	return b.String()
}

func writeRow(b *strings.Builder, name string, row [8]int) {
	b.WriteString("| " + name)
	for _, n := range row {
		fmt.Fprintf(b, " | %d", n)
	}
	b.WriteString(" |\n")
}

// The page of the documentation that has the figures, and what is around them.
const (
	page  = "../../docs/conformance.md"
	begin = "<!-- begin: written by go test -update in conformance/builtin -->\n"
	end   = "<!-- end -->"
)

// documented compares the figures with the documentation, or writes them there.
func documented(t *testing.T, figures string) {
	t.Helper()
	documentedIn(t, page, begin, end, figures)
}

// documentedIn compares what stands between two marks in a page, or writes it there.
func documentedIn(t *testing.T, page, begin, end, figures string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatalf("read a file: %v", err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	was, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no place for the figures", page)
	}
	if *update {
		if err := os.WriteFile(page, []byte(before+begin+"\n"+figures+"\n"+end+after), 0o600); err != nil {
			t.Fatalf("write a file: %v", err)
		}
	} else if strings.TrimSpace(was) != strings.TrimSpace(figures) {
		t.Errorf("the figures of %s are old: run go test -update", page)
	}
}
