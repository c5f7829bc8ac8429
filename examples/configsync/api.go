package main

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// label is on each copy, with the name of what it is a copy for.
const label = "examples.gapless.io/copy-for"

// configCopy is what crd.yaml describes.
type configCopy struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Source     source   `json:"source"`
		Namespaces []string `json:"namespaces"`
	} `json:"spec"`
	Status status `json:"status"`
}

type source struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

type status struct {
	Copies  int    `json:"copies"`
	Problem string `json:"problem"`
}
