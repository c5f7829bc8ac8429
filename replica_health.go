package gapless

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gapless-io/gapless/internal/apiserver"
	"github.com/gapless-io/gapless/internal/store/etcd/members"
)

// inspectEvery is how often the state of the members of etcd is asked for.
const inspectEvery = 10 * time.Second

// etcdHealth is what a replica knows about the health of etcd.
type etcdHealth struct {
	store   *patientStore
	members *members.Members
	report  atomic.Pointer[members.Report] // nil: none yet
}

// run looks at the state of the members of etcd until ctx ends.
func (h *etcdHealth) run(ctx context.Context) error {
	ticker := time.NewTicker(inspectEvery)
	defer ticker.Stop()
	for {
		report, err := h.members.Inspect(ctx)
		if err != nil {
			return nil // ctx has ended
		}
		h.report.Store(&report)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// latest returns the last report, or makes the first one.
func (h *etcdHealth) latest(ctx context.Context) (*members.Report, error) {
	if report := h.report.Load(); report != nil {
		return report, nil
	}
	report, err := h.members.Inspect(ctx)
	return &report, err
}

// checks returns the checks of health that concern an etcd. None of them is a check of liveness: a
// restart of the replica helps against none, and it serves its last state meanwhile. kube-apiserver
// has the first in /livez too. Those of a cluster of overrides have its place in their names, as upstream's.
func (h *etcdHealth) checks(ctx context.Context, cfg Etcd, place string) []apiserver.Check {
	name := func(check string) string {
		if place == "" {
			return "etcd-" + check
		}
		return "etcd-override-" + check + "-" + place
	}
	first := name("quorum")
	if place != "" {
		first = "etcd-override-" + place // upstream's name
	}
	all := []apiserver.Check{
		{Name: first, Check: func() error { return h.answers(ctx, cfg.HealthcheckTimeout) }, ReadyOnly: true},
		// upstream's name
		{Name: name("readiness"), Check: func() error { return h.answers(ctx, cfg.ReadycheckTimeout) }, ReadyOnly: true},
	}
	for _, named := range []struct {
		name   string
		causes []members.Cause
	}{
		{"space", []members.Cause{members.NoSpace}},
		{"corruption", []members.Cause{members.Corrupt}},
		{"access", []members.Cause{members.Denied, members.Certificate}},
		{"cluster", []members.Cause{members.TwoClusters}},
	} {
		all = append(all, apiserver.Check{
			Name: name(named.name), Check: func() error { return h.problem(named.causes...) }, ReadyOnly: true,
		})
	}
	return all
}

// answers returns nil if etcd answers a linearizable read within a time, and this replica has
// everything up to there.
func (h *etcdHealth) answers(ctx context.Context, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	_, err := h.store.Progress(ctx) // all who ask at the same time share one read
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("etcd has no quorum, or this replica lags: no linearizable read within %v", within)
	}
	return err
}

// problem returns what the last inspection has found of some causes; nil: nothing.
func (h *etcdHealth) problem(causes ...members.Cause) error {
	report := h.report.Load()
	if report == nil {
		return nil
	}
	var found []error
	for _, p := range report.Problems {
		if slices.Contains(causes, p.Cause) {
			found = append(found, fmt.Errorf("%s: %s", p.Cause, p.Detail))
		}
	}
	return errors.Join(found...)
}
