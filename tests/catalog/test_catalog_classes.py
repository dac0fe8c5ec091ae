"""Nodes as InferenceClasses: accepted by the schema, written to catalog/, and shown by the CLI."""

import importlib.util
from pathlib import Path

import pytest
import yaml

from modelplane.catalog import inference_class, load_catalog
from modelplane.cli import main

CATALOG = load_catalog()
ROOT = Path(__file__).resolve().parents[2]


def generator():
    spec = importlib.util.spec_from_file_location("generate_catalog", ROOT / "tools" / "generate_catalog.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_class_of_a_cloud():
    assert inference_class(CATALOG, CATALOG.find("gcp:a3-megagpu-8g")) == {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "InferenceClass",
        "metadata": {
            "name": "gcp-a3-megagpu-8g",
            "labels": {"modelplane.ai/gpu": "h100", "modelplane.ai/cloud": "gcp"},
        },
        "spec": {
            "description": ("8 h100 GPUs of gcp a3-megagpu-8g. On-demand list price in us-central1 of 2026-08-22."),
            "devices": [
                {
                    "name": "gpu",
                    "driver": "gpu.nvidia.com",
                    "deviceClassName": "gpu.nvidia.com",
                    "count": 8,
                    "attributes": {
                        "type": {"string": "gpu"},
                        "productName": {"string": "NVIDIA H100 80GB HBM3"},
                        "architecture": {"string": "Hopper"},
                        "cudaComputeCapability": {"version": "9.0.0"},
                    },
                    "capacity": {"memory": {"value": "81559Mi"}},
                },
                {
                    "name": "fabric",
                    "claim": "Synthetic",
                    "driver": "fabric.modelplane.ai",
                    "attributes": {"type": {"string": "GPUDirect-TCPXO"}, "gbps": {"int": 1800}},
                },
            ],
            "nodeResources": {"cpu": "208", "memory": "1872Gi"},
            "provisioning": {
                "provider": "GKE",
                "gke": {
                    "machineType": "a3-megagpu-8g",
                    "accelerator": {"type": "nvidia-h100-mega-80gb", "count": 8},
                },
            },
            "cost": {"pricePerNodeHour": "92.21427"},
        },
    }


def test_a_bare_class_has_no_cloud_and_no_price():
    spec = inference_class(CATALOG, CATALOG.find("gb300-4x"))["spec"]
    assert sorted(spec) == ["description", "devices"]
    assert spec["description"] == "4 gb300 GPUs."


def test_the_folder_is_what_the_data_gives():
    assert generator().stale() == []


def test_every_class_is_valid(capsys):
    assert main(["validate", "-f", str(ROOT / "catalog")]) == 0
    assert f"{len(CATALOG.machines)} objects, 0 problems" in capsys.readouterr().out


def test_show_prints_what_can_be_applied(capsys):
    assert main(["catalog", "show", "aws:p5.48xlarge", "h200-8x"]) == 0
    shown = list(yaml.safe_load_all(capsys.readouterr().out))
    assert [each["metadata"]["name"] for each in shown] == ["aws-p5-48xlarge", "h200-8x"]


def test_list_and_search(capsys):
    assert main(["catalog", "list", "--cloud", "coreweave"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "NODE                   GPUS     MEMORY    NETWORK  FABRIC  PRICE/H  CLASS",
        "coreweave:gb300-nvl72  4 gb300  284208Mi           NVL72            coreweave-gb300-nvl72",
    ]
    assert main(["catalog", "search", "abacus"]) == 1
    assert main(["catalog", "list", "--cloud", "abacus"]) == 1
    assert "no cloud 'abacus'; there are aws, azure, bare" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["list", "search", "show"])
def test_help(verb, capsys):
    with pytest.raises(SystemExit):
        main(["catalog", verb, "--help"])
    assert "usage: modelplane catalog" in capsys.readouterr().out
