package bootstrap

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"log/slog"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// rootCA is the ConfigMap with the certificate by which pods know the API server.
	rootCA = "kube-root-ca.crt"
	caKey  = "ca.crt"
	// defaultAccount is the ServiceAccount of pods that do not name one.
	defaultAccount = "default"
	// described is the annotation of rootCA, and its text upstream's (kubernetes
	// pkg/controller/certificates/rootcacertpublisher).
	described   = "kubernetes.io/description"
	description = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as " +
		"the internal service IP " +
		"or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters."
)

// fill creates the objects that every namespace has, unless the namespace is being deleted.
func (c *Controller) fill(ctx context.Context, name string) error {
	t := c.target(namespaces(), "")
	t.Name = name
	there, err := c.verbs.Get(ctx, t, "")
	if isNotFound(err) {
		if name == corev1.NamespaceNodeLease {
			return c.create(ctx, t, object{wanted: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}})
		}
		return nil
	}
	if err != nil {
		return err
	}
	var ns corev1.Namespace
	if err := json.Unmarshal(there.JSON(), &ns); err != nil {
		return err
	}
	if ns.DeletionTimestamp != nil || ns.Status.Phase != corev1.NamespaceActive {
		return nil
	}
	for _, o := range c.content(ctx, name) {
		err := c.ensure(ctx, o)
		if isNotFound(err) || isTerminating(err) {
			return nil // the namespace was deleted meanwhile
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isTerminating reports whether a creation was refused because the namespace is being deleted.
func isTerminating(err error) bool { return hasReason(err, metav1.StatusReasonForbidden) }

// content returns the objects that every namespace has.
func (c *Controller) content(ctx context.Context, name string) []object {
	data := map[string]string{caKey: string(c.ca)}
	return []object{
		{
			resource: core("configmaps"), namespace: name, name: rootCA,
			wanted: &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{
					Name: rootCA, Namespace: name, Annotations: map[string]string{described: description},
				},
				Data: data,
			},
			correct: correction(func(there *corev1.ConfigMap) (bool, error) {
				if maps.Equal(there.Data, data) && there.Annotations[described] != "" {
					return false, nil
				}
				if c.keepCAs && there.Data[caKey] != string(c.ca) && hasCertificate(there.Data[caKey]) {
					c.warnOfOtherCA(ctx, name)
					return false, nil
				}
				there.Data = data
				set(&there.Annotations, described, description)
				return true, nil
			}),
		},
		{
			resource: core("serviceaccounts"), namespace: name, name: defaultAccount,
			wanted:  &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: defaultAccount, Namespace: name}},
			correct: func([]byte) (any, error) { return nil, nil }, // whatever it is
		},
	}
}

// hasCertificate reports whether a text has a certificate in PEM.
func hasCertificate(text string) bool {
	for block, rest := pem.Decode([]byte(text)); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			return true
		}
	}
	return false
}

// warnOfOtherCA warns of the first namespace with another CA: all of a cluster have the same.
func (c *Controller) warnOfOtherCA(ctx context.Context, namespace string) {
	c.warned.Do(func() {
		c.logger.LogAttrs(ctx, slog.LevelWarn, "the ConfigMap kube-root-ca.crt has another CA than this server, and stays as it "+
			"is: pods that trust it do not trust this server; with --bootstrap=cluster it is replaced in all namespaces",
			slog.String("namespace", namespace))
	})
}
