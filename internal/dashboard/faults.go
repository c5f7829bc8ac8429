package dashboard

import (
	"encoding/json"
	"net/http"
	"time"
)

// faultRows is how many rules are shown, and ruleBytes how many bytes of the text of one, in the page.
const (
	faultRows = 80
	ruleBytes = 600
)

// faultsPage is the rules of faults, as the API has them.
type faultsPage struct {
	Rules          []faultRule
	Omitted        int
	Matched, Acted int64 // by all rules
	Now            time.Time
}

// faultRule is a rule with what it has done.
type faultRule struct {
	Rule           json.RawMessage
	Name, Action   string
	Matched, Acted int64
	Added          time.Time
	InWindow       int
	Problem        string
}

// Text is the rule.
func (f faultRule) Text() string { return brief(string(f.Rule), ruleBytes) }

// faults shows which rules are on, and what they hit. Who may GET them from the API may see them.
func (d *Dashboard) faults(w http.ResponseWriter, r *http.Request) error {
	p := faultsPage{Now: time.Now().UTC()}
	if err := d.askFor(r, d.cfg.FaultsPath, mediaJSON, &p); err != nil {
		return err
	}
	for i := range p.Rules {
		p.Matched, p.Acted = p.Matched+p.Rules[i].Matched, p.Acted+p.Rules[i].Acted
	}
	if p.Omitted = max(0, len(p.Rules)-faultRows); p.Omitted > 0 {
		p.Rules = p.Rules[:faultRows]
	}
	d.render(w, r, view{Page: "faults", Code: http.StatusOK, Title: "Faults", Live: true, Data: p})
	return nil
}
