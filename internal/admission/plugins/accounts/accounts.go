// Package accounts has the admission plugin ServiceAccount, which gives pods their ServiceAccount and what they need to
// use it.
package accounts

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	upstream "k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/admission/plugins"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/tree"
	"github.com/gapless-io/gapless/internal/wire"
)

// Name is the name of ServiceAccount.
const Name = "ServiceAccount"

const (
	defaultName = "default"
	ephemeral   = "ephemeralcontainers"
	// enforces is the annotation of an account that its pods use no other secrets than it lists.
	enforces = "kubernetes.io/enforce-mountable-secrets"
)

//nolint:gochecknoglobals // names
var (
	pods       = kinds.GroupResource{Resource: "pods"}
	accounts   = kinds.GroupResource{Resource: "serviceaccounts"}
	namespaces = kinds.GroupResource{Resource: "namespaces"}
)

// ServiceAccount is upstream's plugin of this name: new pods that name no account get the account default, and all get
// a volume with a token of theirs and the secrets for images. Their account exists, and its pods use only the secrets
// that it lists if it says so. Nothing is given to mirror pods, which may use neither accounts nor secrets.
func ServiceAccount(of *Table) plugins.Plugin {
	p := plugin{of}
	return plugins.Plugin{
		Name: Name,
		Concerns: []plugins.Concern{
			{Resource: pods, Operations: []upstream.Operation{upstream.Create}, Waits: of.Lacks},
			{Resource: pods, Subresource: ephemeral, Operations: []upstream.Operation{upstream.Update}, Waits: of.Lacks},
		},
		Admit: p.admit, Validate: p.validate,
	}
}

type plugin struct{ accounts *Table }

func (p plugin) admit(ctx context.Context, w *plugins.Write) error {
	if w.GetSubresource() == ephemeral {
		return nil
	}
	spec, err := plugins.Spec(w.Object)
	if err != nil {
		return err
	}
	if isMirror(w) {
		return checkMirror(w, spec)
	}
	if plugins.Text(spec, "serviceAccountName") == "" {
		spec["serviceAccountName"], spec["serviceAccount"] = defaultName, defaultName
	}
	account, err := p.accountOf(ctx, w, spec)
	if err != nil {
		return err
	}
	if automounts(account, spec) {
		mount(spec)
	}
	if sent, _ := spec["imagePullSecrets"].([]any); len(sent) == 0 && len(account.ImagePullSecrets) > 0 {
		secrets := make([]any, len(account.ImagePullSecrets))
		for i, secret := range account.ImagePullSecrets {
			reference := map[string]any{}
			if secret.Name != "" {
				reference["name"] = secret.Name
			}
			secrets[i] = reference
		}
		spec["imagePullSecrets"] = secrets
	}
	return account.check(w, spec)
}

func (p plugin) validate(ctx context.Context, w *plugins.Write) error {
	spec, err := plugins.Spec(w.Object)
	if err != nil {
		return err
	}
	if w.GetSubresource() != ephemeral && isMirror(w) {
		return checkMirror(w, spec)
	}
	account, err := p.accountOf(ctx, w, spec)
	if err != nil {
		return err
	}
	if w.GetSubresource() != ephemeral {
		return account.check(w, spec)
	}
	if !account.enforces() {
		return nil
	}
	if err := account.limit(spec, names(account.Secrets), "ephemeralContainers", "ephemeral container"); err != nil {
		// Upstream answers 500 without a reason here, and not 403.
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: err.Error(),
		}}
	}
	return nil
}

// accountOf returns the account of a pod. Errors: 403 if there is none, and, as upstream, if it cannot be read; ctx's
// cause.
func (p plugin) accountOf(ctx context.Context, w *plugins.Write, spec map[string]any) (*Account, error) {
	name := plugins.Text(spec, "serviceAccountName")
	if name == "" {
		return nil, upstream.NewForbidden(w, fmt.Errorf("no service account specified for pod %s/%s",
			w.GetNamespace(), w.Object.GetName()))
	}
	key := wire.Key{Namespace: w.GetNamespace(), Name: name}
	account, err := p.accounts.Find(ctx, key)
	if ended := context.Cause(ctx); err != nil && ended != nil {
		return nil, ended
	}
	if account == nil && err == nil {
		err = apierrors.NewNotFound(apischema.GroupResource{Resource: "serviceaccount"}, name)
	}
	if err != nil {
		return nil, upstream.NewForbidden(w, fmt.Errorf("error looking up service account %s: %w", key, err))
	}
	return account, nil
}

// automounts reports whether a pod gets a token: as it says itself, else as its account says, else it does.
func automounts(a *Account, spec map[string]any) bool {
	if says, is := spec["automountServiceAccountToken"].(bool); is {
		return says
	}
	return a.Automount == nil || *a.Automount
}

// check refuses secrets that a pod may not use.
func (a *Account) check(w *plugins.Write, spec map[string]any) error {
	if !a.enforces() {
		return nil
	}
	if err := a.limitAll(spec); err != nil {
		return upstream.NewForbidden(w, err)
	}
	return nil
}

func (a *Account) enforces() bool {
	value, has := a.Metadata.Annotations[enforces]
	if !has {
		return false
	}
	is, err := strconv.ParseBool(value)
	return is && err == nil
}

// isMirror reports whether a pod is the mirror of a static pod: the kubelet made it of a file.
func isMirror(w *plugins.Write) bool {
	_, is := tree.Child(w.Object.Object, "metadata", "annotations")[corev1.MirrorPodAnnotationKey]
	return is
}

func checkMirror(w *plugins.Write, spec map[string]any) error {
	var err error
	switch {
	case plugins.Text(spec, "serviceAccountName") != "":
		err = errors.New("a mirror pod may not reference service accounts")
	case hasSecrets(spec):
		err = errors.New("a mirror pod may not reference secrets")
	case hasToken(spec):
		err = errors.New("a mirror pod may not use ServiceAccountToken volume projections")
	default:
		return nil
	}
	return upstream.NewForbidden(w, err)
}
