"""Run packages with Core ML, through coremltools, on macOS only."""

import shutil
from collections import defaultdict
from pathlib import Path

from backends.coreml.inputs import Package
from backends.coreml.packages import contents
from backends.coreml.runtime import Function, Functions
from backends.coreml.tools import Var, coremltools
from backends.errors import foreign

KINDS = {
    "MLNeuralEngineComputeDevice": "npu",
    "MLGPUComputeDevice": "gpu",
    "MLCPUComputeDevice": "cpu",
}
"""Our names for coremltools' devices."""


def units(device: str) -> Var:
    """The compute units that Core ML may use for a device; the processor is always one."""
    unit = coremltools.ComputeUnit
    return {"npu": unit.CPU_AND_NE, "gpu": unit.CPU_AND_GPU, "cpu": unit.CPU_ONLY}[device]


def compile_package(folder: Path, package: Package) -> Path:
    """Compile a lowered package once, always to the same path: the system caches device code by path."""
    return compile_once(folder / f"{package}.mlpackage", folder / "compiled" / f"{package}.mlmodelc")


def compile_once(source: Path, target: Path) -> Path:
    """Compile the package `source` to `target`, unless that was done."""
    if not target.exists():
        target.parent.mkdir(exist_ok=True)
        unfinished = target.with_name(f"unfinished-{target.name}")
        shutil.rmtree(unfinished, ignore_errors=True)
        with foreign(f"Core ML cannot compile {source}"):
            coremltools.models.utils.compile_model(str(source), str(unfinished))
        unfinished.rename(target)
    return target


def open_functions(folder: Path, package: Package, device: str) -> Functions:
    """Load the functions of a package for a device, compiling it if need be."""
    names = ["prefill", "decode", *(["encode"] if contents(folder).lowered.prompt else [])]
    path = str(compile_package(folder, package))
    load = coremltools.models.CompiledMLModel
    with foreign(f"Core ML cannot load {path} for {device}"):
        functions = {name: load(path, compute_units=units(device), function_name=name) for name in names}
    return Functions(**functions)


def open_export(package: Path, folder: Path, device: str) -> Function:
    """Load the only function of a package from other programs, compiled to `folder`."""
    path = str(compile_once(package, folder / "compiled" / "exported.mlmodelc"))
    with foreign(f"Core ML cannot load {package} for {device}"):
        function: Function = coremltools.models.CompiledMLModel(path, compute_units=units(device))
    return function


def placement(folder: Path, package: Package, device: str) -> dict[str, float]:
    """Each device's share of a decoding step's estimated work, from Core ML's compute plan."""
    path = str(compile_package(folder, package))
    with foreign(f"Core ML does not report where {path} runs"):
        plan = coremltools.models.compute_plan.MLComputePlan.load_from_path(path, units(device))
        return shares(plan, plan.model_structure.program.functions["decode"].block.operations)


def shares(plan: Var, operations: list[Var]) -> dict[str, float]:
    """Each device's share of the work of `operations`; constants have no device and no cost."""
    work: defaultdict[str, float] = defaultdict(float)
    for operation in operations:
        usage = plan.get_compute_device_usage_for_mlprogram_operation(operation)
        cost = plan.get_estimated_cost_for_mlprogram_operation(operation)
        if usage is not None and cost is not None:
            work[KINDS[type(usage.preferred_compute_device).__name__]] += cost.weight
    total = sum(work.values())
    return {kind: part / total for kind, part in work.items()} if total else {}
