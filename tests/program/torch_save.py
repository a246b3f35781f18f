"""Writes tensors as torch.save does, without torch: a pickle in a zip archive that compresses nothing."""
import io
import pickle
import sys
import types
import zipfile

STORAGES = {"F32": ("FloatStorage", 4), "F16": ("HalfStorage", 2), "BF16": ("BFloat16Storage", 2)}


def stand_in(module, name):
    """Something that pickle writes as module.name."""
    made = types.FunctionType((lambda *arguments: None).__code__, {}, name)
    made.__module__, made.__qualname__ = module, name
    sys.modules.setdefault(module, types.ModuleType(module))
    setattr(sys.modules[module], name, made)
    return made


REBUILD = stand_in("torch._utils", "_rebuild_tensor_v2")
TYPES = {dtype: stand_in("torch", name) for dtype, (name, _) in STORAGES.items()}


class Storage:
    def __init__(self, dtype, key, count):
        self.id = ("storage", TYPES[dtype], key, "cpu", count)


class Tensor:
    def __init__(self, dtype, shape, key):
        strides = [1]
        for size in shape[:0:-1]:
            strides.insert(0, strides[0] * size)
        count = 1
        for size in shape:
            count *= size
        self.arguments = (Storage(dtype, key, count), 0, tuple(shape), tuple(strides[:len(shape)]), False, {})

    def __reduce__(self):
        return REBUILD, self.arguments


class Pickler(pickle.Pickler):
    def persistent_id(self, value):
        return value.id if isinstance(value, Storage) else None


def save(tensors, path):
    """tensors: {name: (type, shape, bytes)}"""
    table = {name: Tensor(dtype, shape, str(key)) for key, (name, (dtype, shape, _)) in enumerate(tensors.items())}
    text = io.BytesIO()
    Pickler(text, protocol=2).dump(table)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("archive/data.pkl", text.getvalue())
        for key, (_, _, content) in enumerate(tensors.values()):
            archive.writestr("archive/data/%d" % key, content)
        archive.writestr("archive/version", "3\n")
