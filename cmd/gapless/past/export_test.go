package past

import (
	"bytes"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/internal/past"
)

// fuzzed is what fuzz tests ask about.
var fuzzed = target{resource: client.Resource{
	GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Kind: "ConfigMap", Namespaced: true,
}}

// History prints a page of changes as gapless history does.
func History(page []byte, output string) (string, error) {
	got, err := (&session{}).decode(fuzzed, page)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	h := history{
		program: Program{Out: &out, Err: &out}.complete(), flags: &historyFlags{output: output, diff: true}, target: fuzzed,
		lines: table{out: &out}, mask: past.NewMasker(),
	}
	for _, c := range got.Items {
		if err := h.change(c); err != nil {
			return "", err
		}
	}
	if err := h.unfold(); err != nil {
		return "", err
	}
	d := comparing{program: h.program, flags: &diffFlags{diff: true}, lines: h.lines, mask: h.mask}
	if err := d.net(fuzzed, got); err != nil {
		return "", err
	}
	b := blaming{program: h.program, flags: &blameFlags{}, target: fuzzed}
	for _, c := range got.Items {
		b.take(c)
	}
	lines, err := b.known.Lines(b.shown())
	if err == nil {
		err = b.print(lines)
	}
	return out.String(), err
}

// Users reads an audit log.
func Users(log []byte) (int, error) {
	found, err := readUsers(bytes.NewReader(log), fuzzed)
	for _, s := range found.several {
		found.of(s.to, time.Time{})
	}
	return len(found.one) + len(found.several), err
}
