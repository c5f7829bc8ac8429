package layout

import (
	"bytes"
	"encoding/json"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	kjson "sigs.k8s.io/json"

	"github.com/gapless-io/gapless/internal/kinds"
)

// definitionStandard is how kube-apiserver stores CustomResourceDefinitions: in v1beta1, which is smaller for
// those with several versions of one schema, and in JSON (kubernetes pkg/controlplane/apiserver
// CreateAPIExtensionsConfig).
func definitionStandard() typeMeta {
	return typeMeta{apiextensionsv1beta1.SchemeGroupVersion.String(), "CustomResourceDefinition"}
}

// definitionVersions are the versions in which definitions can be read.
func definitionVersions(r *kinds.Resource) map[typeMeta]version {
	own := fromJSON(r)
	return map[typeMeta]version{
		{r.APIVersion(), r.Kind}: {fromJSON: own},
		definitionStandard(): {fromJSON: func(object []byte) (map[string]any, error) {
			converted, err := definitionV1(object)
			if err != nil {
				return nil, err
			}
			return own(converted)
		}},
	}
}

// encodeDefinition makes the value in etcd of a definition in v1.
func encodeDefinition(value []byte) ([]byte, error) {
	var v1 apiextensionsv1.CustomResourceDefinition
	if err := kjson.UnmarshalCaseSensitivePreserveInts(value, &v1); err != nil {
		return nil, fmt.Errorf("read the definition: %w", err)
	}
	var internal apiextensions.CustomResourceDefinition
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(
		&v1, &internal, nil); err != nil {
		return nil, fmt.Errorf("convert the definition: %w", err)
	}
	var stored apiextensionsv1beta1.CustomResourceDefinition
	if err := apiextensionsv1beta1.Convert_apiextensions_CustomResourceDefinition_To_v1beta1_CustomResourceDefinition(
		&internal, &stored, nil); err != nil {
		return nil, fmt.Errorf("convert the definition to v1beta1: %w", err)
	}
	meta := definitionStandard()
	stored.APIVersion, stored.Kind = meta.apiVersion, meta.kind
	var text bytes.Buffer
	if err := json.NewEncoder(&text).Encode(&stored); err != nil {
		return nil, fmt.Errorf("encode the definition: %w", err)
	}
	return text.Bytes(), nil
}

// definitionV1 converts a definition in v1beta1 to v1, with the defaults of v1beta1.
func definitionV1(object []byte) ([]byte, error) {
	var stored apiextensionsv1beta1.CustomResourceDefinition
	if err := kjson.UnmarshalCaseSensitivePreserveInts(object, &stored); err != nil {
		return nil, fmt.Errorf("read the definition: %w", err)
	}
	apiextensionsv1beta1.SetObjectDefaults_CustomResourceDefinition(&stored)
	var internal apiextensions.CustomResourceDefinition
	if err := apiextensionsv1beta1.Convert_v1beta1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(
		&stored, &internal, nil); err != nil {
		return nil, fmt.Errorf("convert the definition: %w", err)
	}
	var v1 apiextensionsv1.CustomResourceDefinition
	if err := apiextensionsv1.Convert_apiextensions_CustomResourceDefinition_To_v1_CustomResourceDefinition(
		&internal, &v1, nil); err != nil {
		return nil, fmt.Errorf("convert the definition to v1: %w", err)
	}
	v1.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	converted, err := json.Marshal(&v1)
	if err != nil {
		return nil, fmt.Errorf("encode the definition: %w", err)
	}
	return converted, nil
}

// encodeAPIService makes the value in etcd of an APIService, which kube-apiserver stores in JSON (kubernetes
// pkg/controlplane/apiserver CreateAggregatorConfig).
func encodeAPIService(value []byte) ([]byte, error) {
	var o apiregistrationv1.APIService
	if err := kjson.UnmarshalCaseSensitivePreserveInts(value, &o); err != nil {
		return nil, fmt.Errorf("read the APIService: %w", err)
	}
	o.APIVersion, o.Kind = apiregistrationv1.SchemeGroupVersion.String(), "APIService"
	var text bytes.Buffer
	if err := json.NewEncoder(&text).Encode(&o); err != nil {
		return nil, fmt.Errorf("encode the APIService: %w", err)
	}
	return text.Bytes(), nil
}
