package auth

import (
	"context"
	"errors"
	"slices"
	"strings"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/user"
)

// Named is an authorizer of a [Union]. Its name stands before its reasons.
type Named struct {
	Name string
	Authorizer
}

// Union asks authorizers in their order until one of them allows or denies, as upstream's
// (k8s.io/apiserver/pkg/authorization/union). If none does, the answer is 403 with the reasons of all, or the Refusal of
// the first that has one, or the Failure of all.
type Union []Named

// Authorize implements Authorizer.
func (all Union) Authorize(ctx context.Context, u user.Info, a Attributes) error {
	return all.Decide(ctx, u, a).Err(u, a)
}

// Decide implements Authorizer.
func (all Union) Decide(ctx context.Context, u user.Info, a Attributes) Decision {
	var refusal error
	var failures []error
	var reasons []func() string // by authorizer; nil: none has one
	for i, one := range all {
		d := one.Decide(ctx, u, a)
		if d.Allowed || d.Denied {
			return d
		}
		if refusal == nil {
			refusal = d.Refusal
		}
		if d.Failure != nil {
			failures = append(failures, d.Failure)
		}
		if d.Reason != nil {
			if reasons == nil {
				reasons = make([]func() string, len(all))
			}
			reasons[i] = d.Reason
		}
	}
	d := Decision{Refusal: refusal, Failure: utilerrors.NewAggregate(failures)}
	if reasons == nil {
		return d
	}
	d.Reason = all.reason(reasons)
	return d
}

// reason returns what writes the reasons of authorizers, with their names.
func (all Union) reason(reasons []func() string) func() string {
	return func() string {
		var texts []string
		for i, reason := range reasons {
			if reason == nil {
				continue
			}
			if text := reason(); text != "" {
				texts = append(texts, all[i].Name+": "+text)
			}
		}
		return strings.Join(texts, "\n")
	}
}

// Rules implements Authorizer.
func (all Union) Rules(ctx context.Context, u user.Info, namespace string) (Rules, error) {
	var rules Rules
	var errs []error
	for _, one := range all {
		of, err := one.Rules(ctx, u, namespace)
		if err != nil {
			errs = append(errs, err)
		}
		rules.Resources = append(rules.Resources, of.Resources...)
		rules.Paths = append(rules.Paths, of.Paths...)
		rules.Incomplete = rules.Incomplete || of.Incomplete
	}
	return rules, utilerrors.NewAggregate(errs)
}

// Privileged lets members of system:masters do everything. Its rules are none, as upstream's: a role says the same.
type Privileged struct{}

// Authorize implements Authorizer.
func (p Privileged) Authorize(ctx context.Context, u user.Info, a Attributes) error {
	return p.Decide(ctx, u, a).Err(u, a)
}

// Decide implements Authorizer.
func (Privileged) Decide(_ context.Context, u user.Info, _ Attributes) Decision {
	return Decision{Allowed: slices.Contains(u.GetGroups(), user.SystemPrivilegedGroup)}
}

// Rules implements Authorizer.
func (Privileged) Rules(context.Context, user.Info, string) (Rules, error) { return Rules{}, nil }

// AlwaysDeny allows nothing; what another authorizer of a [Union] allows is allowed.
type AlwaysDeny struct{}

// Authorize implements Authorizer.
func (d AlwaysDeny) Authorize(ctx context.Context, u user.Info, a Attributes) error {
	return d.Decide(ctx, u, a).Err(u, a)
}

// Decide implements Authorizer.
func (AlwaysDeny) Decide(context.Context, user.Info, Attributes) Decision {
	return Decision{Reason: func() string { return "Everything is forbidden." }}
}

// Rules implements Authorizer.
func (AlwaysDeny) Rules(context.Context, user.Info, string) (Rules, error) { return Rules{}, nil }

// ErrNoRules is the error of Rules for users whose rights are not listed.
var ErrNoRules = errors.New("node authorizer does not support user rule resolution")
