package layout

import (
	"encoding/json"
	"fmt"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// keepRequest gives a PodCertificateRequest the public key and the proof that it was created with in v1beta1: v1 has
// neither, and no write changes the spec.
func keepRequest(now, before []byte) ([]byte, error) {
	was, err := requestIn(before)
	if err != nil {
		return nil, err
	}
	public, proof := was.Spec.PKIXPublicKey, was.Spec.ProofOfPossession //nolint:staticcheck // deprecated, and still stored
	if len(public) == 0 && len(proof) == 0 {
		return now, nil
	}
	is, err := requestIn(now)
	if err != nil {
		return nil, err
	}
	is.Spec.PKIXPublicKey = public    //nolint:staticcheck // deprecated, and still stored
	is.Spec.ProofOfPossession = proof //nolint:staticcheck // deprecated, and still stored
	message, err := is.Marshal()
	if err != nil {
		return nil, fmt.Errorf("encode a PodCertificateRequest: %w", err)
	}
	head, err := header(certificatesv1beta1.SchemeGroupVersion.WithKind("PodCertificateRequest"))
	if err != nil {
		return nil, err
	}
	return seal(head, message), nil
}

// requestIn reads a PodCertificateRequest in v1beta1; one in another version is empty, since it has none of the
// fields.
func requestIn(stored []byte) (*certificatesv1beta1.PodCertificateRequest, error) {
	r := &certificatesv1beta1.PodCertificateRequest{}
	if formOf(stored) == jsonForm {
		if err := json.Unmarshal(stored, r); err != nil {
			return nil, fmt.Errorf("read JSON: %w", err)
		}
		return r, nil
	}
	e, err := open(stored)
	if err != nil {
		return nil, err
	}
	if gv, err := schema.ParseGroupVersion(string(e.apiVersion)); err != nil || gv != certificatesv1beta1.SchemeGroupVersion {
		return r, nil //nolint:nilerr // it is another version
	}
	if err := r.Unmarshal(e.message); err != nil {
		return nil, fmt.Errorf("read a PodCertificateRequest: %w", err)
	}
	return r, nil
}
