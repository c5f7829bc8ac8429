// Package monitoring checks the dashboard and the alert rules of deploy/monitoring: against docs/metrics.md, which is
// written from the code, against what a real server and a real relay answer scrapes with, and with promtool.
package monitoring

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v2"
)

const (
	root      = "../.."
	alerts    = root + "/deploy/monitoring/alerts.yaml"
	cases     = root + "/deploy/monitoring/alerts_test.yaml"
	dashboard = root + "/deploy/monitoring/dashboard.json"
)

// metric is what is known of a metric.
type metric struct {
	kind   string
	labels []string
}

var entry = regexp.MustCompile("(?m)^- `([a-z_]+)(?:\\{([a-z_,]*)\\})?` (counter|gauge|histogram)")

// page returns the metrics of docs/metrics.md.
func page(t *testing.T) map[string]metric {
	t.Helper()
	text, err := os.ReadFile(root + "/docs/metrics.md")
	if err != nil {
		t.Fatalf("read the page: %v", err)
	}
	all := map[string]metric{}
	for _, m := range entry.FindAllStringSubmatch(string(text), -1) {
		one := metric{kind: m[3]}
		if m[2] != "" {
			one.labels = strings.Split(m[2], ",")
		}
		all[m[1]] = one
	}
	if len(all) < 50 {
		t.Fatalf("the page has %d metrics", len(all))
	}
	return all
}

// series returns the metrics of the page by the names of their series, and those of the process and of scrapes.
func series(t *testing.T) map[string]metric {
	t.Helper()
	all := map[string]metric{
		"up": {}, "process_cpu_seconds_total": {}, "process_resident_memory_bytes": {}, "go_memstats_heap_inuse_bytes": {},
		"go_goroutines": {},
	}
	for name, m := range page(t) {
		if m.kind != "histogram" {
			all[name] = m
			continue
		}
		all[name+"_sum"], all[name+"_count"] = m, m
		all[name+"_bucket"] = metric{kind: m.kind, labels: append(slices.Clone(m.labels), "le")}
	}
	for name, m := range all {
		m.labels = append(slices.Clone(m.labels), "instance", "job")
		all[name] = m
	}
	return all
}

// check checks that the selectors of a query name metrics and labels that there are, and returns the labels that its
// result may have.
func check(t *testing.T, where, query string, known map[string]metric) []string {
	t.Helper()
	query = strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*").Replace(query)
	e, err := parser.NewParser(parser.Options{}).ParseExpr(query)
	if err != nil {
		t.Errorf("%s: %v", where, err)
		return nil
	}
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.VectorSelector:
			for name, m := range selected(n, known) {
				for _, by := range n.LabelMatchers {
					if by.Name != labels.MetricName && !slices.Contains(m.labels, by.Name) {
						t.Errorf("%s: %s has no label %s", where, name, by.Name)
					}
				}
			}
			if len(selected(n, known)) == 0 {
				t.Errorf("%s: there is no metric %s", where, n)
			}
		case *parser.AggregateExpr:
			has := result(n.Expr, known)
			for _, by := range n.Grouping {
				if !n.Without && !slices.Contains(has, by) {
					t.Errorf("%s: it is grouped by %s, which %s has not", where, by, n.Expr)
				}
			}
		}
		return nil
	})
	return result(e, known)
}

// selected returns the metrics that a selector selects.
func selected(s *parser.VectorSelector, known map[string]metric) map[string]metric {
	found := maps.Clone(known)
	maps.DeleteFunc(found, func(name string, _ metric) bool {
		return slices.ContainsFunc(s.LabelMatchers, func(m *labels.Matcher) bool {
			return m.Name == labels.MetricName && !m.Matches(name)
		})
	})
	return found
}

// result returns the labels that the result of an expression may have.
func result(e parser.Expr, known map[string]metric) []string {
	switch e := e.(type) {
	case *parser.VectorSelector:
		var all []string
		for _, m := range selected(e, known) {
			all = append(all, append(m.labels, labels.MetricName)...)
		}
		return all
	case *parser.AggregateExpr:
		if e.Without {
			return result(e.Expr, known)
		}
		return e.Grouping
	}
	var all []string
	for child := range parser.ChildrenIter(e) {
		if expr, is := child.(parser.Expr); is {
			all = append(all, result(expr, known)...)
		}
	}
	return all
}

// panel is what is checked of a panel of Grafana.
type panel struct {
	ID          int    `json:"id"`
	Type        string `json:"type"`
	Title       string `json:"title"`
	Description string `json:"description"`
	GridPos     struct {
		X int `json:"x"`
		Y int `json:"y"`
		W int `json:"w"`
		H int `json:"h"`
	} `json:"gridPos"`
	FieldConfig struct {
		Defaults struct {
			Unit string `json:"unit"`
		} `json:"defaults"`
	} `json:"fieldConfig"`
	Targets []struct {
		Expr         string `json:"expr"`
		LegendFormat string `json:"legendFormat"`
	} `json:"targets"`
}

var legend = regexp.MustCompile(`\{\{(\w+)\}\}`)

func TestEveryPanelShowsMetricsThatThereAre(t *testing.T) {
	text, err := os.ReadFile(dashboard)
	if err != nil {
		t.Fatalf("read the dashboard: %v", err)
	}
	var board struct {
		Panels []panel `json:"panels"`
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatalf("read the dashboard: %v", err)
	}
	if len(board.Panels) < 20 {
		t.Fatalf("it has %d panels", len(board.Panels))
	}
	known := series(t)
	ids, cells := map[int]bool{}, map[[2]int]string{}
	for _, p := range board.Panels {
		where := fmt.Sprintf("panel %d, %q", p.ID, p.Title)
		if p.ID == 0 || ids[p.ID] || p.Title == "" {
			t.Errorf("%s: no title, or an id that others have", where)
		}
		ids[p.ID] = true
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if cells[at] != "" || at[0] >= 24 {
					t.Errorf("%s lies over %s, or outside", where, cells[at])
				}
				cells[at] = where
			}
		}
		if p.Type == "row" {
			continue
		}
		if p.FieldConfig.Defaults.Unit == "" || !strings.HasSuffix(p.Description, ".") || len(p.Targets) == 0 {
			t.Errorf("%s: it has no unit, no description, or shows nothing", where)
		}
		for _, target := range p.Targets {
			has := check(t, where, target.Expr, known)
			for _, m := range legend.FindAllStringSubmatch(target.LegendFormat, -1) {
				if !slices.Contains(has, m[1]) {
					t.Errorf("%s: the legend %q has a label that %s has not", where, target.LegendFormat, target.Expr)
				}
			}
		}
	}
}

// rule is an alert of a file of rules.
type rule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

func readYAML(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("read a file: %v", err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatalf("read %s: %v", file, err)
	}
}

var used = regexp.MustCompile(`\$labels\.(\w+)`)

func TestEveryAlertIsAboutMetricsThatThereAreAndHasCases(t *testing.T) {
	var rules struct {
		Groups []struct {
			Rules []rule `yaml:"rules"`
		} `yaml:"groups"`
	}
	readYAML(t, alerts, &rules)
	var tests struct {
		Tests []struct {
			Name       string `yaml:"name"`
			AlertTests []struct {
				Name   string `yaml:"alertname"`
				Alerts []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		} `yaml:"tests"`
	}
	readYAML(t, cases, &tests)
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, test := range tests.Tests {
		for _, a := range test.AlertTests {
			if len(a.Alerts) > 0 {
				fires[a.Name] = true
			} else {
				quiet[a.Name] = true
			}
		}
	}
	known := series(t)
	count := 0
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			count++
			if !fires[r.Alert] || !quiet[r.Alert] {
				t.Errorf("%s lacks a case in which it fires, or one in which it does not", r.Alert)
			}
			if r.Annotations["summary"] == "" || r.Annotations["description"] == "" ||
				!slices.Contains([]string{"critical", "warning"}, r.Labels["severity"]) {
				t.Errorf("%s lacks a summary, a description or a severity", r.Alert)
			}
			has := check(t, r.Alert, r.Expr, known)
			for _, text := range r.Annotations {
				for _, m := range used.FindAllStringSubmatch(text, -1) {
					if !slices.Contains(has, m[1]) {
						t.Errorf("%s: %q names a label that the expression has not", r.Alert, text)
					}
				}
			}
		}
	}
	if count < 20 {
		t.Fatalf("there are %d alerts", count)
	}
}

// TestPromtoolAcceptsTheRulesAndTheirCases builds promtool without what finds the servers of clouds.
func TestPromtoolAcceptsTheRulesAndTheirCases(t *testing.T) {
	promtool := filepath.Join(t.TempDir(), "promtool")
	build := exec.CommandContext(t.Context(), "go", "build", "-tags", "remove_all_sd", "-o", promtool,
		"github.com/prometheus/prometheus/cmd/promtool") // go tool knows no tags
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build promtool: %v\n%s", err, out)
	}
	for _, args := range [][]string{{"check", "rules", "--lint=all", "--lint-fatal", alerts}, {"test", "rules", cases}} {
		args[len(args)-1] = filepath.Clean(args[len(args)-1])
		if out, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}
