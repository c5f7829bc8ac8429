package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/informer"
)

// printer writes events.
type printer interface {
	// tables reports whether it wants rows instead of objects.
	tables() bool
	// columns sets the columns of the rows.
	columns([]metav1.TableColumnDefinition)
	event(informer.Event[*seen]) error
	// synced is called once the initial state was written with event.
	synced() error
}

func newPrinter(output string, out io.Writer, resource client.Resource, namespaces bool) printer {
	switch output {
	case "json", "yaml":
		return &documents{out: out, yaml: output == "yaml"}
	case "name":
		return &names{out: out, resource: resource}
	}
	return &columnar{out: out, wide: output == "wide", namespaces: namespaces}
}

// verb is the type of an event as a watch writes it.
func verb(t informer.EventType) string { return strings.ToUpper(t.String()) }

// bare is the common part of printers without tables.
type bare struct{}

func (bare) tables() bool                           { return false }
func (bare) columns([]metav1.TableColumnDefinition) {}
func (bare) synced() error                          { return nil }

// names prints "pod/web", or "pod/web deleted".
type names struct {
	bare

	out      io.Writer
	resource client.Resource
}

func (n *names) event(e informer.Event[*seen]) error {
	suffix := ""
	if e.Type == informer.Deleted {
		suffix = " deleted"
	}
	kind := strings.ToLower(n.resource.Kind)
	if n.resource.Group != "" {
		kind += "." + n.resource.Group
	}
	_, err := fmt.Fprintf(n.out, "%s/%s%s\n", kind, e.Key.Name, suffix)
	return err
}

// documents prints {"type":…,"object":…}, as the lines of a watch are: JSON one per
// line, YAML one per document.
type documents struct {
	bare

	out  io.Writer
	yaml bool
}

func (d *documents) event(e informer.Event[*seen]) error {
	var text bytes.Buffer
	fmt.Fprintf(&text, `{"type":%q,"object":`, verb(e.Type))
	if err := json.Compact(&text, e.Object().body); err != nil {
		return fmt.Errorf("object %s: %w", e.Key, err)
	}
	text.WriteString("}\n")
	out := text.Bytes()
	if d.yaml {
		converted, err := yaml.JSONToYAML(out)
		if err != nil {
			return fmt.Errorf("object %s: %w", e.Key, err)
		}
		out = append([]byte("---\n"), converted...)
	}
	_, err := d.out.Write(out)
	return err
}

// columnar prints the server's tables, with the event type in front. It prints the
// initial rows together, with columns that fit all of them.
type columnar struct {
	out        io.Writer
	wide       bool
	namespaces bool
	head       once

	mu sync.Mutex
	// mu guards all below.
	waiting [][]string
	widths  []int
	flowing bool
}

func (c *columnar) tables() bool { return true }

func (c *columnar) columns(columns []metav1.TableColumnDefinition) { c.head.set(columns) }

func (c *columnar) event(e informer.Event[*seen]) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(c.waiting, c.line(verb(e.Type), e.Key.Namespace, func(i int, _ metav1.TableColumnDefinition) string {
		if cells := e.Object().Cells; i < len(cells) {
			return cell(cells[i])
		}
		return ""
	}))
	if e.Initial && !c.flowing {
		return nil
	}
	return c.flushLocked()
}

func (c *columnar) synced() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.flushLocked()
}

// line returns the words of one line; text returns that of a column of the server.
func (c *columnar) line(event, namespace string, text func(int, metav1.TableColumnDefinition) string) []string {
	words := []string{event}
	if c.namespaces {
		words = append(words, namespace)
	}
	for i, column := range c.head.get() {
		if column.Priority == 0 || c.wide {
			words = append(words, text(i, column))
		}
	}
	return words
}

// cell is one value as kubectl prints it.
func cell(v any) string {
	switch v := v.(type) {
	case nil:
		return "<none>"
	case float64:
		return fmt.Sprintf("%.0f", v)
	}
	text := fmt.Sprint(v)
	if i := strings.IndexAny(text, "\r\n\f"); i >= 0 {
		text = text[:i] + "..."
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f { // no escape sequences from objects to the terminal
			return -1
		}
		return r
	}, text)
}

// flushLocked writes the waiting lines, after the head if it was not written yet.
func (c *columnar) flushLocked() error {
	if len(c.waiting) == 0 {
		c.flowing = true
		return nil
	}
	if c.widths == nil {
		head := c.line("EVENT", "NAMESPACE", func(_ int, column metav1.TableColumnDefinition) string {
			return strings.ToUpper(column.Name)
		})
		c.waiting = append([][]string{head}, c.waiting...)
		c.widths = make([]int, len(head))
		c.widths[0] = len("MODIFIED")
	}
	for _, words := range c.waiting {
		for i, word := range words[:min(len(words), len(c.widths))] {
			c.widths[i] = max(c.widths[i], utf8.RuneCountInString(word))
		}
	}
	var text bytes.Buffer
	for _, words := range c.waiting {
		for i, word := range words {
			text.WriteString(word)
			if i < len(words)-1 {
				text.WriteString(strings.Repeat(" ", max(c.widths[i]-utf8.RuneCountInString(word), 0)+3))
			}
		}
		text.WriteByte('\n')
	}
	c.waiting, c.flowing = nil, true
	_, err := c.out.Write(text.Bytes())
	return err
}
