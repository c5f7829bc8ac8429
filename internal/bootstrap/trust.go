package bootstrap

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
)

// authentication is the ConfigMap by which API servers behind this one know its callers and its proxy (kubernetes
// pkg/controlplane/controller/clusterauthenticationtrust).
const authentication = "extension-apiserver-authentication"

// The keys of its data.
const (
	clientCAs       = "client-ca-file"
	proxyCAs        = "requestheader-client-ca-file"
	proxyNames      = "requestheader-allowed-names"
	usernameHeaders = "requestheader-username-headers"
	uidHeaders      = "requestheader-uid-headers"
	groupHeaders    = "requestheader-group-headers"
	extraPrefixes   = "requestheader-extra-headers-prefix"
)

// Trust is by what a server knows its callers.
type Trust struct {
	// ClientCAs are the CAs of client certificates, in PEM, FrontProxyCAs those of a front proxy, if there is one.
	ClientCAs, FrontProxyCAs []byte
	// The common names of the front proxy, and its headers.
	AllowedNames, UsernameHeaders, UIDHeaders, GroupHeaders, ExtraHeaderPrefixes []string
}

// trustEvery is how often the ConfigMap is checked: files with CAs change without an event.
const trustEvery = time.Minute

// trustObject is the ConfigMap. What other servers over the same objects have written stays, as upstream.
func (c *Controller) trustObject() []object {
	if c.trust == nil {
		return nil
	}
	made, err := c.trust().join(nil)
	if err != nil {
		return nil // not of certificates that were read
	}
	return []object{{
		resource: core("configmaps"), namespace: metav1.NamespaceSystem, name: authentication,
		wanted: &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: authentication, Namespace: metav1.NamespaceSystem}, Data: made,
		},
		correct: correction(func(there *corev1.ConfigMap) (bool, error) {
			data, err := c.trust().join(there.Data)
			if err != nil || maps.Equal(data, there.Data) {
				return false, err
			}
			there.Data = data
			return true, nil
		}),
	}}
}

// join returns the data of the ConfigMap with what is there.
func (t Trust) join(there map[string]string) (map[string]string, error) {
	data := map[string]string{}
	for key, own := range map[string][]byte{clientCAs: t.ClientCAs, proxyCAs: t.FrontProxyCAs} {
		all, err := joinCAs(there[key], own)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		if all != "" {
			data[key] = all
		}
	}
	if data[proxyCAs] == "" {
		return data, nil
	}
	for key, own := range map[string][]string{
		proxyNames: t.AllowedNames, usernameHeaders: t.UsernameHeaders, uidHeaders: t.UIDHeaders, groupHeaders: t.GroupHeaders,
		extraPrefixes: t.ExtraHeaderPrefixes,
	} {
		all := []string{}
		if text := there[key]; text != "" {
			if err := json.Unmarshal([]byte(text), &all); err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
		}
		for _, one := range own {
			if !slices.Contains(all, one) {
				all = append(all, one)
			}
		}
		if key == uidHeaders && len(all) == 0 {
			continue
		}
		text, err := json.Marshal(all)
		if err != nil {
			return nil, err
		}
		data[key] = string(text)
	}
	return data, nil
}

// joinCAs returns the certificates of both, each once and without those that have expired.
func joinCAs(there string, own []byte) (string, error) {
	var all []*x509.Certificate
	for _, body := range [][]byte{[]byte(there), own} {
		if len(body) == 0 {
			continue
		}
		some, err := cert.ParseCertsPEM(body)
		if err != nil {
			return "", err
		}
		all = append(all, some...)
	}
	var out bytes.Buffer
	limit := time.Now().Add(-5 * time.Minute)
	for i, ca := range all {
		if !ca.NotAfter.After(limit) || slices.ContainsFunc(all[:i], ca.Equal) {
			continue
		}
		if err := pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw}); err != nil {
			return "", err
		}
	}
	return out.String(), nil
}
