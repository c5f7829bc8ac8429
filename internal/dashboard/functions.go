package dashboard

import (
	"fmt"
	"html/template"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// maxField is how many bytes of what a client has written stand in a page.
const maxField = 160

// functions are those of the templates.
func functions() template.FuncMap {
	return template.FuncMap{
		"spark":   spark,
		"bytes":   byteCount,
		"reasons": reasons,
		"brief":   func(text string) string { return brief(text, maxField) },
		"clock":   func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000Z") },
		"minute":  func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04Z") },
		"stamp":   func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) },
		"ago":     func(since, now time.Time) string { return now.Sub(since).Round(time.Second).String() },
		"millis":  func(t time.Time) int64 { return t.UnixMilli() },
		"link": func(id, namespace, name, rv string) template.URL {
			q := url.Values{"r": {id}, "name": {name}}
			if namespace != "" {
				q.Set("ns", namespace)
			}
			if rv != "" {
				q.Set("b", rv)
			}
			return template.URL(q.Encode()) //nolint:gosec // nothing in it needs escaping
		},
	}
}

// byteCount is a number of bytes as people read it.
func byteCount(n int64) string {
	const step = 1000
	if n < step {
		return strconv.FormatInt(n, 10) + " B"
	}
	of, unit := float64(n)/step, 0
	for ; of >= step && unit < len("kMGT")-1; unit++ {
		of /= step
	}
	return fmt.Sprintf("%.1f %cB", of, "kMGT"[unit])
}

// Sizes of a sparkline, in units of its picture.
const (
	sparkWidth  = 120
	sparkHeight = 20
)

// spark is a picture of numbers: a bar for each.
func spark(values []int, label string) template.HTML {
	most := 1
	for _, v := range values {
		most = max(most, v)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="spark" viewBox="0 0 %d %d" preserveAspectRatio="none" role="img" aria-label="%s">`,
		sparkWidth, sparkHeight, template.HTMLEscapeString(label))
	width := float64(sparkWidth) / float64(max(len(values), 1))
	b.WriteString(`<path d="`)
	for i, v := range values {
		if v == 0 {
			continue
		}
		height, bar := max(1, float64(v*sparkHeight)/float64(most)), max(width-0.6, 0.6)
		fmt.Fprintf(&b, "M%.1f %dh%.1fv%.1fh%.1fz", float64(i)*width, sparkHeight, bar, -height, -bar)
	}
	b.WriteString(`"/></svg>`)
	return template.HTML(b.String()) //nolint:gosec // numbers, and an escaped label
}
