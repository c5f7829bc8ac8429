package main

import (
	"encoding/json"
	"fmt"
	"os"
)

// recorded is a run as bench/log/results.json has it: `bench --add` reads it.
type recorded struct {
	Note    string   `json:"note"`
	Results []result `json:"results"`
}

type result struct {
	Case     string   `json:"case"`
	Work     string   `json:"work"`
	Metric   string   `json:"metric"`
	Unit     string   `json:"unit,omitempty"`
	Gapless  float64  `json:"gapless"`
	Peer     *float64 `json:"peer,omitempty"`
	PeerName string   `json:"peerName,omitempty"`
	Goal     string   `json:"goal,omitempty"`
}

// record writes what the runs found into a file, if it has a name.
func record(path string, found map[string]figures, pods, events int) error {
	if path == "" {
		return nil
	}
	run := recorded{Note: fmt.Sprintf("%d pods, %d events, one run each", pods, events)}
	for _, r := range rows() {
		theirs, has := found[r.theirs]
		our, have := found[r.our]
		if !has || !have {
			continue
		}
		name := "informer " + r.on
		one := result{Case: name, Work: "informer, " + r.on, Metric: r.what, Unit: r.unit, Gapless: r.value(our)}
		if peer := r.value(theirs); peer >= 0 { // else it does not say
			one.Peer, one.PeerName = &peer, "client-go"
		}
		switch {
		case r.ownAtMost > 0:
			one.Goal = fmt.Sprintf("≤ %g", r.ownAtMost)
		case r.atMost > 0:
			one.Goal = fmt.Sprintf("≤ %gx", r.atMost)
		case r.atLeast > 0:
			one.Goal = fmt.Sprintf("≥ %gx", r.atLeast)
		}
		run.Results = append(run.Results, one)
	}
	raw, err := json.MarshalIndent(map[string][]recorded{"runs": {run}}, "", " ")
	if err != nil {
		return fmt.Errorf("record: %w", err)
	}
	return os.WriteFile(path, append(raw, '\n'), 0o644) //nolint:gosec // it becomes a part of the repository
}
