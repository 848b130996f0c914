"""Write the monkey and the teapot of SVIB-CLEVR and SVIB-CLEVRTex as small triangle meshes.

Run it inside Blender 3.x, which generates both meshes:

    blender -b --python tools/export_meshes.py -- tools/meshes

The folder then holds `monkey.npz` and `teapot.npz`, each with `vertices` float32 [V, 3], `triangles` uint16 [T, 3]
(counter-clockwise from outside) and `normals` float32 [V, 3] (unit, smooth). Coordinates are those of the
unit shape: multiply by an object's size and add its position. The poses were fitted to the released masks.

Some Blender builds lack numpy, so the arrays are written with the standard library only.
"""

import importlib.util
import io
import math
import struct
import sys
import zipfile
from array import array
from collections.abc import Iterable
from pathlib import Path

import bmesh
import bpy
from mathutils import Euler, Matrix, Vector

MONKEY_SCALE = (0.806, 0.806, 0.982)
MONKEY_TURN = (-40.45, 0.0, 45.0)  # degrees about x, y, z
MONKEY_SHIFT = (0.154, -0.149, -0.4755)
MONKEY_LEVELS = 2  # Catmull-Clark subdivisions
MONKEY_KEPT = 0.35  # share of the faces kept by decimation

TEAPOT_SCALE = (0.456, 0.456, 0.456)
TEAPOT_TURN = (0.0, 0.0, 135.0)
TEAPOT_SHIFT = (0.006, 0.0075, -1.008)
TEAPOT_RESOLUTION = 10  # quads along one side of a Bezier patch


def pose(scale: Iterable[float], turn: Iterable[float], shift: Iterable[float]) -> Matrix:
    """The matrix that scales, rotates (degrees), then translates."""
    rotation = Euler([math.radians(angle) for angle in turn], "XYZ")
    return Matrix.LocRotScale(Vector(shift), rotation, Vector(scale))


def take_mesh(matrix: Matrix) -> bmesh.types.BMesh:
    """The active object with its modifiers applied, posed and triangulated, with outward faces."""
    graph = bpy.context.evaluated_depsgraph_get()
    mesh = bmesh.new()
    mesh.from_object(bpy.context.object, graph)
    mesh.transform(matrix)
    bmesh.ops.remove_doubles(mesh, verts=mesh.verts, dist=1e-5)
    bmesh.ops.triangulate(mesh, faces=mesh.faces)
    bmesh.ops.recalc_face_normals(mesh, faces=mesh.faces)
    mesh.normal_update()
    return mesh


def make_monkey() -> bmesh.types.BMesh:
    """Blender's monkey, subdivided, tilted back until it rests on its chin."""
    bpy.ops.mesh.primitive_monkey_add()
    bpy.context.object.modifiers.new("smooth", "SUBSURF").levels = MONKEY_LEVELS
    bpy.context.object.modifiers.new("reduce", "DECIMATE").ratio = MONKEY_KEPT
    return take_mesh(pose(MONKEY_SCALE, MONKEY_TURN, MONKEY_SHIFT))


def register_teapot() -> None:
    """Load only the teapot module of the add-on, because the whole add-on needs numpy."""
    scripts = Path(bpy.utils.system_resource("SCRIPTS"))
    path = scripts / "addons" / "add_mesh_extra_objects" / "add_mesh_teapot.py"
    spec = importlib.util.spec_from_file_location("add_mesh_teapot", path)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    bpy.utils.register_class(module.AddTeapot)


def make_teapot() -> bmesh.types.BMesh:
    """Newell's teapot from the extra-objects add-on, with its handle towards the camera."""
    register_teapot()
    bpy.ops.mesh.primitive_teapot_add(resolution=TEAPOT_RESOLUTION, objecttype="1")
    return take_mesh(pose(TEAPOT_SCALE, TEAPOT_TURN, TEAPOT_SHIFT))


def npy(values: array, descr: str) -> bytes:
    """A version 1.0 .npy file of shape [N, 3]."""
    header = repr({"descr": descr, "fortran_order": False, "shape": (len(values) // 3, 3)})
    header += " " * (-(len(header) + 11) % 64) + "\n"
    if sys.byteorder != "little":
        values.byteswap()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + values.tobytes()


def save(mesh: bmesh.types.BMesh, path: Path) -> None:
    """Write the mesh as a compressed .npz whose bytes depend only on its contents."""
    mesh.verts.index_update()
    arrays = {
        "vertices": npy(array("f", (x for vertex in mesh.verts for x in vertex.co)), "<f4"),
        "triangles": npy(array("H", (vertex.index for face in mesh.faces for vertex in face.verts)), "<u2"),
        "normals": npy(array("f", (x for vertex in mesh.verts for x in vertex.normal)), "<f4"),
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in arrays.items():
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), data, zipfile.ZIP_DEFLATED, 9)
    path.write_bytes(buffer.getvalue())
    print(f"{path}: {len(mesh.verts)} vertices, {len(mesh.faces)} triangles, {len(buffer.getvalue()) // 1024} KB")


def main() -> None:
    """Write both meshes into the folder named after `--`."""
    folder = Path(sys.argv[sys.argv.index("--") + 1])
    folder.mkdir(parents=True, exist_ok=True)
    save(make_monkey(), folder / "monkey.npz")
    save(make_teapot(), folder / "teapot.npz")


if __name__ == "__main__":
    main()
