package inspect

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/gapless-io/gapless/status"
)

// serverReport shows a server with a log of its own.
func serverReport(of status.Server, rates *rates) *report {
	r := &report{}
	r.add("server", "%s, gapless %s, up %s", of.URL, of.Version, ago(of.Started))
	r.add("resourceVersion", "%d", of.ResourceVersion)
	history := "nothing yet"
	if !of.OldestTime.IsZero() {
		history = "the last " + ago(of.OldestTime)
	}
	r.add("history", "%s, %s", history, bytes(of.HistoryBytes))
	r.addState(&of.State, rates)
	return r
}

// addState adds what servers and replicas have in common.
func (r *report) addState(of *status.State, rates *rates) {
	r.addStorage(of.Storage)
	r.addRefused(of.Refused)
	t := table{name: "resources", columns: named("RESOURCE", "#OBJECTS", "#BYTES", "#HISTORY", "#OLDEST", "#SINCE", "#CHANGED",
		"#WATCHES", "REMOVED-BY", "+#REMOVED", "+#RESOURCEVERSION")}
	for _, o := range of.Resources {
		t.rows = append(t.rows, []cell{
			text(o.Resource), number(o.Objects), size(o.Bytes), size(o.HistoryBytes), number(o.Oldest), since(o.OldestTime),
			since(o.LastTime), number(o.Watches), text(o.RemovedBy), since(o.RemovedAt), number(o.ResourceVersion),
		})
	}
	r.tables = append(r.tables, t)
	r.addClients(&of.Clients, rates)
}

func (r *report) addStorage(of status.Storage) {
	switch {
	case of.Lost != "":
		r.addProblem("storage", "WRITES MAY BE LOST: %s", of.Lost)
	case of.ReadOnly != "":
		r.addProblem("storage", "TAKES NO WRITES: %s", of.ReadOnly)
	default:
		r.add("storage", "takes writes; the last change was %s ago", ago(of.LastWrite))
	}
	text := fmt.Sprintf("%s in %d files, %d syncs", bytes(of.Bytes), of.Files, of.Syncs)
	if of.Syncs > 0 {
		text += ", on average " + milliseconds(of.SyncMeanSeconds)
	}
	if of.SyncMostSeconds > 0 {
		text += ", 99 % within " + milliseconds(of.SyncMostSeconds)
	}
	r.add("disk", "%s", text)
	if of.FileSystemBytes > 0 {
		text := fmt.Sprintf("%s of %s are free", bytes(of.FreeBytes), bytes(of.FileSystemBytes))
		if of.NearlyFull() {
			r.addProblem("disk", "ONLY %s: without any, writes are refused", text)
		} else {
			r.add("disk", "%s", text)
		}
	}
	if of.RefusedWrites+of.MaintenanceFailures > 0 {
		r.addProblem("disk", "%d writes were refused, and %d compactions or merges have failed", of.RefusedWrites,
			of.MaintenanceFailures)
	}
}

func milliseconds(seconds float64) string {
	const thousand = 1000
	if ms := seconds * thousand; ms >= 0.1 {
		return fmt.Sprintf("%.3g ms", ms)
	}
	return "less than 0.1 ms"
}

func (r *report) addRefused(of map[string]int64) {
	var all []string
	for _, reason := range slices.Sorted(maps.Keys(of)) {
		all = append(all, fmt.Sprintf("%d %s", of[reason], reason))
	}
	r.add("refused", "%s", cmp.Or(strings.Join(all, ", "), "nothing"))
}

// addClients adds the watches, and those that have expired.
func (r *report) addClients(of *status.Clients, rates *rates) {
	columns := named("USER", "AGENT", "RESOURCE", "NAMESPACE", "SELECTOR", "#OPEN", "#EVENTS", "#BEHIND", "#LAG", "#EXPIRES",
		"+#KNOWN", "+#ABOVE-OLDEST", "+VERSION")
	if rates != nil {
		columns = slices.Insert(columns, eventsAt+1, column{name: "EVENTS/S", number: true})
		rates.next(of.Watches)
	}
	watches := table{name: "watches", columns: columns}
	for i := range of.Watches {
		w := &of.Watches[i]
		row := append(who(&w.Client), since(w.Since), number(w.Delivered), number(w.BehindEvents), lag(w), expires(w.ExpiresAt),
			number(w.Known), number(w.AboveOldest), text(w.Version))
		if rates != nil {
			row = slices.Insert(row, eventsAt+1, rates.of(w))
		}
		watches.rows = append(watches.rows, row)
	}
	if more := of.WatchCount - len(of.Watches); more > 0 {
		watches.more = fmt.Sprintf("and %d more watches, which would get 410 later", more)
	}
	expired := table{name: "expired", columns: named("USER", "AGENT", "RESOURCE", "NAMESPACE", "SELECTOR", "#EXPIRED", "#FROM",
		"+#KNOWN", "WHY")}
	for i := range of.Expired {
		e := &of.Expired[i]
		expired.rows = append(expired.rows, append(who(&e.Client), since(e.At), number(e.From), number(e.Known), text(e.Why)))
	}
	r.tables = append(r.tables, watches, expired)
}

// eventsAt is the place of EVENTS among the columns of watches.
const eventsAt = 6

// who is who watches, and what.
func who(c *status.Client) []cell {
	agent, _, _ := strings.Cut(c.UserAgent, " ")
	selector := c.LabelSelector
	if c.FieldSelector != "" {
		selector = strings.TrimPrefix(selector+","+c.FieldSelector, ",")
	}
	return []cell{text(c.User), text(agent), text(c.Resource), text(c.Namespace), text(selector)}
}

// lag is for how long a watch is being sent what it is sent now.
func lag(w *status.Watch) cell {
	if w.BehindEvents == 0 && w.BehindSeconds == 0 {
		return cell{text: "0s"}
	}
	return cell{text: fmt.Sprintf("%.1fs", w.BehindSeconds), by: w.BehindSeconds}
}

// expires is in how long a client gets 410 that connects again then; one that does not is the last.
func expires(at time.Time) cell {
	if at.IsZero() {
		return cell{text: "-", by: math.Inf(1)}
	}
	left := time.Until(at)
	if left <= 0 {
		return cell{text: "now", by: float64(at.Unix())}
	}
	return cell{text: duration.HumanDuration(left), by: float64(at.Unix())}
}
